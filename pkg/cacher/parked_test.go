// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

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
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// put writes a Pod and returns what tells whether it is still in memory.
func (c *Cacher) put(t *testing.T, name string, revision int) weak.Pointer[example.Pod] {
	t.Helper()
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, ResourceVersion: fmt.Sprint(revision)}}
	if err := (&intake{Cacher: c}).Update(pod); err != nil {
		t.Fatal(err)
	}
	return weak.Make(pod)
}

// open opens a watch of everything, which ends with the test.
func (c *Cacher) open(t *testing.T, opts storage.ListOptions) (*watcher, *beginning) {
	t.Helper()
	opts.Recursive, opts.Predicate.AllowWatchBookmarks = true, true
	revision, err := c.config.Versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	begin, err := c.beginning(t.Context(), "/pods/", revision, opts)
	if err != nil {
		t.Fatal(err)
	}
	w := c.newWatcher(t.Context(), "/pods/", opts)
	w.since = begin.revision
	generation, err := c.ready.check()
	if err != nil || !c.dispatcher.start(t.Context(), w, begin, generation) {
		t.Fatal("the cache is not ready:", err)
	}
	t.Cleanup(c.dispatcher.parked.Wait)
	t.Cleanup(w.Stop)
	synctest.Wait()
	return w, begin
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
// looks which objects are left before it is ended for that.
func TestBlockedWatcherHoldsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const kept = 40
		c := idle(t, func(config *Config) { config.HistoryEvents = kept })
		var objects []weak.Pointer[example.Pod]
		for n := range kept {
			objects = append(objects, c.put(t, "one", 101+n))
		}
		w, _ := c.open(t, storage.ListOptions{ResourceVersion: "100"})
		for n := range kept {
			c.put(t, "one", 101+kept+n)
		}
		g.Expect(alive(objects[:resultSize+1])).To(Equal(resultSize+1), "what is in the channel, and the next one")
		// The oldest event that is kept has the last of them as the object before it.
		g.Expect(alive(objects[resultSize+1 : kept-1])).To(BeZero())
		c.dispatcher.lookAtBlocked()
		synctest.Wait()
		g.Expect(alive(objects[resultSize : kept-1])).To(BeZero())
		goruntime.KeepAlive(w)
	})
}

// begin fills a cache and opens a watch that begins with the state.
func initial(t *testing.T, c *Cacher, there int) (w *watcher, begin *beginning, objects []weak.Pointer[example.Pod]) {
	for n := range there {
		objects = append(objects, c.put(t, fmt.Sprintf("pod-%03d", n), 101+n))
	}
	w, begin = c.open(t, storage.ListOptions{ResourceVersion: "0", SendInitialEvents: ptr.To(true)})
	return w, begin, objects
}

// TestBlockedWatcherLetsGoOfItsInitialState blocks a watcher in the middle of its initial state:
// after a while it does not hold that state, and sends the rest of it all the same when it is
// read.
func TestBlockedWatcherLetsGoOfItsInitialState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const there = 100
		c := idle(t)
		w, begin, _ := initial(t, c, there)
		state := weak.Make(begin.state)
		for n := range there {
			c.put(t, fmt.Sprintf("pod-%03d", n), 101+there+n)
		}
		c.dispatcher.lookAtBlocked()
		synctest.Wait()
		g.Expect(alive([]weak.Pointer[watchcache.Snapshot[*element]]{state})).To(Equal(1), "it may be read at any moment")
		c.dispatcher.lookAtBlocked()
		synctest.Wait()
		g.Expect(alive([]weak.Pointer[watchcache.Snapshot[*element]]{state})).To(BeZero())
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
		c := idle(t, func(config *Config) { config.HistoryEvents = kept })
		w, _, objects := initial(t, c, there)
		for n := range there + kept {
			c.put(t, fmt.Sprintf("pod-%03d", n%there), 101+there+n)
		}
		c.dispatcher.lookAtBlocked()
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
