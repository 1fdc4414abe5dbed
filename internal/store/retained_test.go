// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// retaining is a store whose pages a test counts itself.
type retaining struct {
	*Engine
	*rand.Rand
	engine   *watchcache.Engine[object.Object, struct{}] // Engine reads it
	revision uint64
	labels   func(n int) int // of Pod n; chance chooses them if nil
}

func newRetaining(t *testing.T, decoded bool) *retaining {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	form := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.Pod](), Decoded: decoded})
	engine := watchcache.New[object.Object, struct{}](watchcache.Options[object.Object]{Values: informer.Values(form)})
	return &retaining{Engine: NewEngine(engine, form, clock.RealClock{}), engine: engine, Rand: rand.New(rand.NewPCG(seed, 0))}
}

// made returns the next version of a Pod.
func (s *retaining) made(n int) Item {
	s.revision++
	label := s.IntN(50)
	if s.labels != nil {
		label = s.labels(n)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprint("ns", n%5), Name: fmt.Sprintf("pod%05d", n), Labels: map[string]string{"app": fmt.Sprint(label)},
		Annotations: map[string]string{"text": fmt.Sprintf("%0*x", 16+8*s.IntN(20), s.Uint64())},
	}}
	return Item{Key: object.Key(pod.Namespace, pod.Name), Revision: s.revision, Value: s.form.Keep(pod)}
}

// write puts or deletes a Pod.
func (s *retaining) write(n int, deleted bool) {
	s.engine.Apply(watchcache.Change[object.Object, struct{}]{Item: s.made(n), Deleted: deleted})
}

// relist replaces the state by one of as many Pods, some of them as they were.
func (s *retaining) relist(n int) {
	var items []Item
	for i := range n {
		made := s.made(i)
		if was, ok := s.engine.Get(made.Key); ok && s.IntN(2) == 0 {
			made.Revision = was.Revision
		}
		items = append(items, made)
	}
	s.engine.Replace(items, s.revision)
}

// Keep keeps the state of now, whatever all hold.
func (s *retaining) Keep() uint64 {
	s.kept.mu.Lock()
	s.kept.measured = time.Now().Add(time.Hour)
	s.kept.mu.Unlock()
	return s.kept.add(engineView{snapshot: s.engine.Snapshot()}, s.kept.rewrites.Load())
}

// TestPinsCountEachVersionOnce has pages come and go between writes, and compares what is
// counted over all states that are kept.
func TestPinsCountEachVersionOnce(t *testing.T) {
	for _, decoded := range []bool{false, true} {
		t.Run(fmt.Sprintf("decoded %t", decoded), func(t *testing.T) {
			g, s := NewWithT(t), newRetaining(t, decoded)
			const objects = 40
			for range 2000 {
				switch s.IntN(30) {
				case 0, 1, 2:
					if s.engine.Len() > 0 {
						s.Keep()
					}
				case 3, 4:
					if n := len(s.states()); n > 0 {
						s.kept.Drop(s.states()[s.IntN(n)].name)
					}
				case 5:
					if s.IntN(10) == 0 {
						s.relist(s.IntN(objects))
					}
				default:
					s.write(s.IntN(objects), s.IntN(4) == 0)
				}
				g.Expect(s.versions()).To(Equal(s.unshared()))
				s.bounded(g)
			}
		})
	}
}

// kept returns the states that are kept.
func (s *retaining) states() []*keptState[engineView] {
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	return slices.Clone(s.kept.states)
}

// versions returns the bytes of versions that the states hold, by comparing each state with the next.
func (s *retaining) versions() (bytes int) {
	views := s.views()
	for i, view := range views {
		next := s.engine.Snapshot()
		if i+1 < len(views) {
			next = views[i+1].snapshot
		}
		bytes += versionsOf(view.snapshot, next)
	}
	return bytes
}

// bounded expects that the number of events bounds the number of versions of each state.
func (s *retaining) bounded(g *WithT) {
	now := s.engine.Snapshot()
	for _, view := range s.views() {
		taken := 0
		for it := range view.snapshot.Items("", "") {
			if other, ok := now.Get(it.Key); !ok || !other.Value.Same(it.Value) {
				taken++
			}
		}
		g.Expect(taken).To(BeNumerically("<=", events(view.snapshot, now)))
	}
}

func (s *retaining) views() (views []engineView) {
	for _, state := range s.states() {
		views = append(views, state.state)
	}
	return views
}

// unshared returns the bytes of all versions that are in a kept state, and not in the state of now.
func (s *retaining) unshared() (bytes int) {
	held := map[object.Object]int{}
	for _, state := range s.states() {
		for it := range state.state.snapshot.Items("", "") {
			held[it.Value] = len(it.Key) + it.Value.Bytes()
		}
	}
	for it := range s.engine.Snapshot().Items("", "") {
		delete(held, it.Value)
	}
	for _, size := range held {
		bytes += size
	}
	return bytes
}

// TestPinsCountWhatTheHeapHolds compares what is counted, trees and all, with what is free
// when the pages go. Each event is taken to change the indexes, so writes that leave the labels
// as they are count for more than they hold.
func TestPinsCountWhatTheHeapHolds(t *testing.T) {
	const objects = 20_000
	for name, test := range map[string]struct {
		writes, pages, deleted int
		labels                 func(n int) int
		most                   float64
	}{
		"few writes":       {writes: 100, pages: 1},
		"labels stay":      {writes: 1000, pages: 1, labels: func(n int) int { return n % 50 }, most: 2.5},
		"some writes":      {writes: 3000, pages: 1},
		"all is written":   {writes: 3 * objects, pages: 1},
		"several pages":    {writes: 4000, pages: 8},
		"objects come, go": {writes: 8000, pages: 3, deleted: 2},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), newRetaining(t, false)
			s.labels = test.labels
			for n := range objects {
				s.write(n, false)
			}
			s.engine.AddIndex(postings.LabelName("app"))
			for range test.pages {
				s.Keep()
				for range test.writes / test.pages {
					s.write(s.IntN(objects), test.deleted > 0 && s.IntN(test.deleted) == 0)
				}
			}
			counted := 0
			held, _ := s.kept.bytesHeld(s.views())
			for _, bytes := range held {
				counted += bytes
			}
			before := inUse()
			s.kept.clear()
			free := before - inUse()
			t.Logf("%d KB counted, %d KB held, of a store of %d KB", counted>>10, free>>10, measured(s.engine.Snapshot()).all()>>10)
			g.Expect(float64(counted) / float64(free)).To(And(BeNumerically(">", 0.5), BeNumerically("<", cmp.Or(test.most, 1.5))))
			runtime.KeepAlive(s)
		})
	}
}

func inUse() int {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestAStateOfBeforeARewriteIsNotKept lets the form of all objects change while a list is
// answered: the state that it has read has nothing in common with that of now, and would not be
// counted.
func TestAStateOfBeforeARewriteIsNotKept(t *testing.T) {
	g, s := NewWithT(t), newRetaining(t, false)
	s.relist(300)
	read, err := s.Find(context.Background(), &Request{Page: Page{Limit: 10}})
	g.Expect(err).NotTo(HaveOccurred())
	move := s.form.Renew()
	s.engine.Rewrite(func(it Item) object.Object { return move(it.Value) })
	name := read.State.Keep()
	g.Expect(s.states()).To(BeEmpty())
	_, err = s.kept.Find(name)
	g.Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "%v", err)

	read, err = s.Find(context.Background(), &Request{Page: Page{Limit: 10}})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.kept.Find(read.State.Keep())
	g.Expect(err).NotTo(HaveOccurred(), "the next list has pages")
}

// BenchmarkKeep measures what a list of 100,000 objects does for the pages to come, and measuring what 16 of them hold: while the number
// of events says that it is little, and when all objects are compared.
func BenchmarkKeep(b *testing.B) {
	form := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.Pod]()})
	engine := watchcache.New[object.Object, struct{}](watchcache.Options[object.Object]{Values: informer.Values(form)})
	s := &retaining{Engine: NewEngine(engine, form, clock.RealClock{}), engine: engine, Rand: rand.New(rand.NewPCG(1, 1))}
	for n := range 100_000 {
		s.write(n, false)
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			s.Keep()
		}
	})
	for name, writes := range map[string]int{"measure, 100 events": 100, "measure, 100,000 events": 100_000} {
		b.Run(name, func(b *testing.B) {
			for n := range writes {
				s.write(n, false)
			}
			for b.Loop() {
				s.kept.bytesHeld(s.views())
			}
		})
	}
}

// BenchmarkWriteBesidePages measures what pages add to a write.
func BenchmarkWriteBesidePages(b *testing.B) {
	for _, pages := range []int{0, 1, 16} {
		b.Run(fmt.Sprint(pages, " pages"), func(b *testing.B) {
			form := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.Pod]()})
			engine := watchcache.New[object.Object, struct{}](watchcache.Options[object.Object]{Values: informer.Values(form)})
			s := &retaining{Engine: NewEngine(engine, form, clock.RealClock{}), engine: engine, Rand: rand.New(rand.NewPCG(1, 1))}
			for n := range 20_000 {
				s.write(n, false)
			}
			it := s.made(1)
			for range pages {
				s.Keep()
				for n := range 100 {
					s.write(n, false)
				}
			}
			for b.Loop() {
				s.revision++
				it.Revision = s.revision
				s.engine.Apply(watchcache.Change[object.Object, struct{}]{Item: it})
			}
		})
	}
}
