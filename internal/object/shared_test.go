// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"fmt"
	"reflect"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/flat"
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

// TestFewSharedObjectsStay reads every object of a store without a copy. A flat object must not
// have a decoded one for ever after.
func TestFewSharedObjectsStay(t *testing.T) {
	g, random, f := NewWithT(t), newRandom(t), forms()[0]
	const objects = 1000
	kept := make([]object.Object, objects)
	made := make([]weak.Pointer[corev1.Pod], objects)
	for i := range kept {
		kept[i] = f.Keep(f.random(random))
		shared, err := f.Shared(kept[i])
		g.Expect(err).NotTo(HaveOccurred())
		made[i] = weak.Make(shared.(*corev1.Pod))
	}
	g.Expect(alive(made)).To(BeNumerically("<", 200))
	goruntime.KeepAlive(f)
	goruntime.KeepAlive(kept)
}

// TestSharedObjectsTakeLittle reads objects of 1 MiB without a copy: as few of them stay as take
// some MiB, be it in strings, in bytes or in something else. A larger one does not stay at all.
func TestSharedObjectsTakeLittle(t *testing.T) {
	for name, fill := range map[string]func(*corev1.Pod){
		"strings": func(p *corev1.Pod) { p.Annotations = map[string]string{"a": strings.Repeat("text", 1<<18)} },
		"bytes": func(p *corev1.Pod) {
			p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(strings.Repeat("text", 1<<18))}}
		},
		"few strings in large structs": func(p *corev1.Pod) { p.Spec.Volumes = make([]corev1.Volume, 1<<12) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.Pod]()})
			kept, made := []object.Object{}, []weak.Pointer[corev1.Pod]{}
			for n := range 20 {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n)}}
				fill(pod)
				kept = append(kept, f.Keep(pod))
				shared, err := f.Shared(kept[n])
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(f.Shared(kept[n])).To(BeIdenticalTo(shared))
				made = append(made, weak.Make(shared.(*corev1.Pod)))
			}
			g.Expect(alive(made)).To(BeNumerically("<", 6))
			huge := &corev1.Pod{}
			fill(huge)
			huge.Spec.Volumes = make([]corev1.Volume, 1<<16)
			o := f.Keep(huge)
			one, err := f.Shared(o)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(f.Shared(o)).NotTo(BeIdenticalTo(one))
			goruntime.KeepAlive(f)
			goruntime.KeepAlive(kept)
		})
	}
}

// TestSharedObjectsKeepNoDictionary reads an object without a copy in each life of a dictionary,
// and one after it.
func TestSharedObjectsKeepNoDictionary(t *testing.T) {
	g, f := NewWithT(t), podForm()
	f.Keep(twin(0, 1))
	kept := f.Keep(twin(1, 1))
	var dictionaries []weak.Pointer[flat.Dictionary]
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
