// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/object"
)

func TestSharedReadsShareOneObject(t *testing.T) {
	random := newRandom(t)
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			g := NewWithT(t)
			source := f.random(random)
			kept := f.Keep(source)
			shared := make([]any, 4)
			var wg sync.WaitGroup
			for i := range shared {
				wg.Go(func() { shared[i], _ = f.Shared(kept) })
			}
			wg.Wait()
			g.Expect(shared).To(HaveEach(BeIdenticalTo(shared[0])))
			g.Expect(f.Materialize(kept)).NotTo(BeIdenticalTo(map[bool]any{true: shared[0]}[f.flat]), "a flat object is made anew")
			if !f.flat {
				g.Expect(shared[0]).To(BeIdenticalTo(source))
			}
			g.Expect(f.Shared(f.Retell(kept))).To(BeIdenticalTo(shared[0]))
		})
	}
}

// TestSharedReadsGoByIdentity: to look at the bytes of an object would take as long as to read it.
func TestSharedReadsGoByIdentity(t *testing.T) {
	g, random, f := NewWithT(t), newRandom(t), forms()[0]
	source := f.random(random)
	f.Keep(source)
	one, equal := f.Keep(source), f.Keep(source)
	shared, err := f.Shared(one)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.Shared(equal)).To(And(Equal(shared), Not(BeIdenticalTo(shared))))
	g.Expect(f.Shared(one)).To(BeIdenticalTo(shared))
}

// alive counts the pointers whose value is still in memory.
func alive[T any](pointers []weak.Pointer[T]) (n int) {
	goruntime.GC()
	for _, p := range pointers {
		if p.Value() != nil {
			n++
		}
	}
	return n
}

// TestSharedObjectsStayAsLongAsTheyAreRead reads all objects of a store without copies every few
// seconds, then half of them, then none.
func TestSharedObjectsStayAsLongAsTheyAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, random, f := NewWithT(t), newRandom(t), forms()[0]
		const objects = 1000
		kept, first := make([]object.Object, objects), make([]weak.Pointer[corev1.Pod], objects)
		for i := range kept {
			kept[i] = f.Keep(f.random(random))
		}
		read := func(n int, made []weak.Pointer[corev1.Pod]) {
			for i := range n {
				shared, err := f.Shared(kept[i])
				g.Expect(err).NotTo(HaveOccurred())
				made[i] = weak.Make(shared.(*corev1.Pod))
			}
		}
		read(objects, first)
		g.Expect(f.SharedSize().Objects).To(Equal(objects))
		g.Expect(f.SharedSize().Bytes).To(BeNumerically(">", objects*1000))
		again := make([]weak.Pointer[corev1.Pod], objects)
		for range 5 {
			time.Sleep(8 * time.Second)
			read(objects, again)
			g.Expect(again).To(Equal(first), "they are the same objects")
		}
		for range 3 {
			time.Sleep(8 * time.Second)
			read(objects/2, again)
		}
		g.Expect(alive(first)).To(Equal(objects / 2))
		g.Expect(f.SharedSize().Objects).To(Equal(objects / 2))
		time.Sleep(25 * time.Second)
		g.Expect(alive(first)).To(BeZero())
		g.Expect(f.SharedSize()).To(BeZero())
		read(1, again)
		g.Expect(f.SharedSize().Objects).To(Equal(1), "it begins again")
		time.Sleep(25 * time.Second)
		g.Expect(f.SharedSize()).To(BeZero())
		goruntime.KeepAlive(f)
		goruntime.KeepAlive(kept)
	})
}

// TestSharedObjectsFitTheBudget reads objects of 1 MiB of two stores without copies: as few of them
// stay as the budget of both has room for, be it in strings, in bytes or in something else.
func TestSharedObjectsFitTheBudget(t *testing.T) {
	const limit = 8 << 20
	for name, fill := range map[string]func(*corev1.Pod){
		"strings": func(p *corev1.Pod) { p.Annotations = map[string]string{"a": strings.Repeat("text", 1<<18)} },
		"bytes": func(p *corev1.Pod) {
			p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(strings.Repeat("text", 1<<18))}}
		},
		"few strings in large structs": func(p *corev1.Pod) { p.Spec.Volumes = make([]corev1.Volume, 1<<12) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, full := NewWithT(t), 0
				budget := object.NewBudget(limit)
				forms, kept, made := []*object.Form{}, [2][]object.Object{}, []weak.Pointer[corev1.Pod]{}
				for n := range kept {
					f := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.Pod]()})
					f.Share(object.Sharing{Budget: budget, Full: func(object.SharedSize) { full++ }})
					forms = append(forms, f)
					for i := range 10 {
						pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
						fill(pod)
						kept[n] = append(kept[n], f.Keep(pod))
						shared, err := f.Shared(kept[n][i])
						g.Expect(err).NotTo(HaveOccurred())
						made = append(made, weak.Make(shared.(*corev1.Pod)))
					}
				}
				g.Expect(alive(made)).To(And(BeNumerically(">", 2), BeNumerically("<", 9)))
				g.Expect(forms[0].SharedSize().Bytes).To(And(BeNumerically(">", limit/2), BeNumerically("<=", limit)))
				g.Expect(forms[1].SharedSize().Bytes).To(BeNumerically("<=", limit-forms[0].SharedSize().Bytes))
				g.Expect(full).To(Equal(2), "each store says so once")

				time.Sleep(25 * time.Second)
				g.Expect(alive(made)).To(BeZero())
				one, err := forms[1].Shared(kept[1][0])
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(forms[1].Shared(kept[1][0])).To(BeIdenticalTo(one), "the budget has room again")
				goruntime.KeepAlive(forms)
				goruntime.KeepAlive(kept)
			})
		})
	}
}

func TestNothingIsSharedWithoutABudget(t *testing.T) {
	g, random, f := NewWithT(t), newRandom(t), forms()[0]
	f.Share(object.Sharing{Budget: object.NewBudget(-1)})
	kept := f.Keep(f.random(random))
	one, err := f.Shared(kept)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.Shared(kept)).To(And(Equal(one), Not(BeIdenticalTo(one))))
	g.Expect(f.SharedSize()).To(BeZero())
}

// TestAReplacedObjectIsForgotten has a reader that shares an object after it was replaced: that one
// goes when it is not read any more.
func TestAReplacedObjectIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, random, f := NewWithT(t), newRandom(t), forms()[0]
		kept := f.Keep(f.random(random))
		f.Forget(kept)
		f.Forget(object.Object{})
		one, err := f.Shared(kept)
		g.Expect(err).NotTo(HaveOccurred())
		f.Forget(kept)
		g.Expect(f.SharedSize()).To(BeZero())
		g.Expect(f.Shared(kept)).To(And(Equal(one), Not(BeIdenticalTo(one))))
		time.Sleep(25 * time.Second)
		g.Expect(f.SharedSize()).To(BeZero())
	})
}

// TestKeptObjectsAreToldOnce is told of many objects that are read again, but not of few ones, nor
// of objects read once.
func TestKeptObjectsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := NewWithT(t), podForm()
		var told []object.SharedSize
		f.Share(object.Sharing{Kept: func(s object.SharedSize) { told = append(told, s) }})
		const objects = 100
		kept := make([]object.Object, objects)
		for i := range kept {
			kept[i] = f.Keep(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Spec: corev1.PodSpec{Containers: make([]corev1.Container, 100)}})
		}
		read := func(n int) {
			for _, o := range kept[:n] {
				_, err := f.Shared(o)
				g.Expect(err).NotTo(HaveOccurred())
			}
		}
		for range 4 {
			time.Sleep(30 * time.Second)
			read(objects)
		}
		for range 4 {
			time.Sleep(5 * time.Second)
			read(10)
		}
		g.Expect(told).To(BeEmpty())
		for range 10 {
			time.Sleep(5 * time.Second)
			read(objects)
		}
		g.Expect(told).To(HaveLen(1))
		g.Expect(told[0].Objects).To(Equal(objects))
		g.Expect(told[0].Bytes).To(BeNumerically(">=", 4<<20))
	})
}

// TestSharedObjectsUnderConcurrency reads, replaces and moves objects at the same time, and lets the
// clock run. In the end no byte of the budget is taken.
func TestSharedObjectsUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, random := NewWithT(t), newRandom(t)
		f := podForm()
		budget := object.NewBudget(1 << 20)
		f.Share(object.Sharing{Budget: budget})
		const objects = 100
		var kept [objects]atomic.Pointer[object.Object]
		renew := func(i int) {
			o := f.Keep(randomPod(rand.New(rand.NewPCG(uint64(i), 0))))
			if was := kept[i%objects].Swap(&o); was != nil {
				f.Forget(*was)
			}
		}
		for i := range objects {
			renew(i)
		}
		var wg sync.WaitGroup
		for range 4 {
			seed := random.Uint64()
			wg.Go(func() {
				random := rand.New(rand.NewPCG(seed, 1))
				for range 3000 {
					o := kept[random.IntN(objects)].Load()
					one, err := f.Shared(*o)
					if err != nil || one.(*corev1.Pod).Name != o.Name() {
						t.Errorf("shared %v: %v", one, err)
					}
					if random.IntN(50) == 0 {
						time.Sleep(time.Duration(random.IntN(int(time.Second))))
					}
				}
			})
		}
		wg.Go(func() {
			for i := range 1000 {
				renew(i)
				time.Sleep(10 * time.Millisecond)
				if i%100 == 0 {
					move := f.Renew()
					for n := range kept {
						o := move(*kept[n].Load())
						f.Forget(*kept[n].Swap(&o))
					}
				}
			}
		})
		wg.Wait()
		time.Sleep(25 * time.Second)
		g.Expect(f.SharedSize()).To(BeZero())
		g.Expect(budget.Taken()).To(BeZero())
	})
}

// TestSharedObjectsKeepNoDictionary reads an object without a copy in each life of a dictionary,
// and one after it.
func TestSharedObjectsKeepNoDictionary(t *testing.T) {
	g, f := NewWithT(t), podForm()
	f.Keep(twin(0, 1))
	kept := f.Keep(twin(1, 1))
	var dictionaries []weak.Pointer[dictionary.Dictionary]
	for range 5 {
		_, err := f.Shared(kept)
		g.Expect(err).NotTo(HaveOccurred())
		dictionaries = append(dictionaries, weak.Make(kept.Dictionary()))
		late := kept
		kept = f.Renew()(kept)
		_, err = f.Shared(late) // out of a snapshot, say
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(alive(dictionaries)).To(BeZero())
	g.Expect(f.Copy(kept)).To(Equal(twin(1, 1)))
}

// BenchmarkShared reads an object of 1 MiB, and a small one, as often as they are shared.
func BenchmarkShared(b *testing.B) {
	for _, size := range []int{1 << 20, 100} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.ConfigMap]()})
			kept, into := f.Keep(&corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", size)}}), &corev1.ConfigMap{}
			for b.Loop() {
				if err := f.ShareInto(kept, into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
