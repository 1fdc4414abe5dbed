// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"fmt"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"weak"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
)

// open opens a watch of everything, which ends with the test.
func (s *stage) open(t *testing.T, begin *Beginning) *watcher {
	t.Helper()
	w := s.watch(t.Context(), t, begin)
	t.Cleanup(s.catchingUp.Wait)
	t.Cleanup(w.Stop)
	synctest.Wait()
	return w
}

// alive counts the objects that are in memory.
func alive[T any](objects []weak.Pointer[T]) (n int) {
	goruntime.GC()
	for _, object := range objects {
		if object.Value() != nil {
			n++
		}
	}
	return n
}

// TestBlockedWatcherHoldsOneEvent lets the history pass a watcher that waits for its reader, and
// checks which objects are left before the watcher is ended.
func TestBlockedWatcherHoldsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const kept = 40
		s := newStage(t, kept)
		from := s.position
		var objects []weak.Pointer[example.Pod]
		for n := range kept {
			objects = append(objects, s.put(t, "one", 101+n))
		}
		w := s.open(t, &Beginning{Position: from, Revision: 100})
		for n := range kept {
			s.put(t, "one", 101+kept+n)
		}
		g.Expect(alive(objects[:resultSize+1])).To(Equal(resultSize+1), "what is in the channel, and the next one")
		// The oldest event that is kept has the last of them as the object before it.
		g.Expect(alive(objects[resultSize+1 : kept-1])).To(BeZero())
		s.checkBlocked()
		synctest.Wait()
		g.Expect(alive(objects[resultSize : kept-1])).To(BeZero())
		goruntime.KeepAlive(w)
	})
}

// openInitial fills a cache and opens a watch that begins with the state and stands for a list.
func (s *stage) openInitial(t *testing.T, there int) (w *watcher, begin *Beginning, objects []weak.Pointer[example.Pod]) {
	t.Helper()
	for n := range there {
		objects = append(objects, s.put(t, fmt.Sprintf("pod-%03d", n), 101+n))
	}
	state := s.engine.Snapshot()
	begin = &Beginning{State: state, Objects: walk, StreamsList: true, Position: state.Position(), Revision: state.Revision()}
	return s.open(t, begin), begin, objects
}

// TestBlockedWatcherLetsGoOfItsInitialState blocks a watcher in the middle of its initial state:
// after a while it does not hold that state, and sends the rest of it all the same when it is
// read.
func TestBlockedWatcherLetsGoOfItsInitialState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const there = 100
		s := newStage(t, 0)
		w, begin, _ := s.openInitial(t, there)
		state := weak.Make(begin.State)
		for n := range there {
			s.put(t, fmt.Sprintf("pod-%03d", n), 101+there+n)
		}
		s.checkBlocked()
		synctest.Wait()
		g.Expect(alive([]weak.Pointer[Snapshot]{state})).To(Equal(1), "it may be read at any moment")
		s.checkBlocked()
		synctest.Wait()
		g.Expect(alive([]weak.Pointer[Snapshot]{state})).To(BeZero())
		for n := range 2*there + 1 {
			event := <-w.ResultChan()
			m := event.Object.(metav1.Object)
			switch {
			case n < there:
				g.Expect(event.Type).To(Equal(watch.Added))
				g.Expect(m.GetResourceVersion()).To(Equal(fmt.Sprint(101 + n)))
			case n == there:
				g.Expect(event.Type).To(Equal(watch.Bookmark))
				g.Expect(m.GetResourceVersion()).To(Equal(fmt.Sprint(100 + there)))
			default:
				g.Expect(event.Type).To(Equal(watch.Modified))
				g.Expect(m.GetResourceVersion()).To(Equal(fmt.Sprint(100 + n)))
			}
		}
	})
}

// TestWatcherInItsInitialStateEnds lets the history pass a watcher whose state nobody reads: it ends,
// and nothing of that state is left but what is in its channel.
func TestWatcherInItsInitialStateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const there, kept = 100, 50
		s := newStage(t, kept)
		w, _, objects := s.openInitial(t, there)
		for n := range there + kept {
			s.put(t, fmt.Sprintf("pod-%03d", n%there), 101+there+n)
		}
		s.checkBlocked()
		synctest.Wait()
		g.Expect(alive(objects)).To(Equal(resultSize))
		events := 0
		for event := range w.ResultChan() {
			g.Expect(event.Type).To(Equal(watch.Added))
			events++
		}
		g.Expect(events).To(Equal(resultSize))
	})
}
