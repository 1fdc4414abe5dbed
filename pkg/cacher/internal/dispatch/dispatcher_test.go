// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestBookmarkWhileEventsAreDispatched sends a bookmark between two events of a batch: it must
// not be of an older revision than the first of them.
func TestBookmarkWhileEventsAreDispatched(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, 0)
	w := s.watch(t.Context(), t, &Beginning{Position: s.position, Revision: 100})
	s.catchingUp.Wait() // it follows
	s.put(t, "one", 101)
	s.put(t, "one", 102)
	position := s.position
	events := s.next(t, position, 2)
	s.dispatch(&events[0], true)
	s.clock.Step(BookmarkFrequency + time.Second)
	s.sendBookmarks()
	s.dispatch(&events[1], true)
	w.Stop()
	var got []string
	for event := range w.ResultChan() {
		m := event.Object.(metav1.Object)
		got = append(got, fmt.Sprint(event.Type, " ", m.GetResourceVersion()))
	}
	g.Expect(got).To(HaveExactElements(
		fmt.Sprint(watch.Added, " 101"), fmt.Sprint(watch.Bookmark, " 101"), fmt.Sprint(watch.Modified, " 102")))
}

// TestAWatcherThatHasEndedIsForgotten: it keeps the context of its request, which is many times as large, and a client may begin
// thousands of watches in the minute until the next bookmark.
func TestAWatcherThatHasEndedIsForgotten(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, 0)
	lives := s.watch(t.Context(), t, &Beginning{Position: s.position, Revision: 100})
	s.watch(t.Context(), t, &Beginning{Position: s.position, Revision: 100}).Stop()
	ctx, cancel := context.WithCancel(t.Context())
	ended := s.watch(ctx, t, &Beginning{Position: s.position, Revision: 100})
	cancel()
	<-ended.done
	s.catchingUp.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	g.Expect(s.watchers).To(HaveLen(1))
	for _, slot := range s.bookmarks.slots {
		for w := range slot {
			g.Expect(w).To(BeIdenticalTo(lives), "it has ended")
		}
	}
}

// TestWatcherAheadOfTheDispatcher lets a watcher read events before they are dispatched: it must
// not get them again.
func TestWatcherAheadOfTheDispatcher(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, 0)
	position := s.position
	s.put(t, "one", 101)
	s.put(t, "one", 102)
	w := s.watch(t.Context(), t, &Beginning{Position: position, Revision: 100})
	s.catchingUp.Wait() // it has read both, and follows
	s.clock.Step(BookmarkFrequency + time.Second)
	s.sendBookmarks()
	s.put(t, "one", 103)
	events := s.next(t, position, 3)
	for i := range events {
		s.dispatch(&events[i], true)
	}
	w.Stop()
	var got []string
	for event := range w.ResultChan() {
		got = append(got, fmt.Sprint(event.Type, " ", event.Object.(metav1.Object).GetResourceVersion()))
	}
	g.Expect(got).To(HaveExactElements(
		fmt.Sprint(watch.Added, " 101"), fmt.Sprint(watch.Modified, " 102"), fmt.Sprint(watch.Modified, " 103")),
		"and no bookmark while the dispatcher is behind")
}

// TestNoBookmarkWithinARevision sends bookmarks between the events of a revision.
func TestNoBookmarkWithinARevision(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, 0)
	for n := range 4 {
		s.put(t, fmt.Sprint("pod", n+1), 101+n)
	}
	s.Reset()
	position := s.position
	s.engine.Apply(deletion("pod1", 105), deletion("pod2", 105))
	w := s.watch(t.Context(), t, &Beginning{Position: position, Revision: 105}) // it hears of bookmarks alone
	s.catchingUp.Wait()
	w.since = 0
	events := s.next(t, position, 2)
	for i := range events {
		s.dispatch(&events[i], i == 1)
		s.clock.Step(BookmarkFrequency + time.Second)
		s.sendBookmarks()
	}
	w.Stop()
	var got []watch.EventType
	for event := range w.ResultChan() {
		got = append(got, event.Type)
	}
	g.Expect(got[:len(got)-1]).NotTo(ContainElement(watch.Bookmark), "between the two")
	g.Expect(got[len(got)-1]).To(Equal(watch.Bookmark))
}
