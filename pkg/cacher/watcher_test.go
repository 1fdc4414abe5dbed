// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// bubble runs a test of a Cacher in front of a storage in memory, in a time of its own. It
// fails if a goroutine is left.
func bubble(t *testing.T, test func(t *testing.T, s *memoryStorage, c *cacher.Cacher), options ...option) {
	t.Helper()
	supportProgress(t)
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryStorage()
		c := startOn(t, s, options...)
		synctest.Wait()
		test(t, s, c)
	})
}

func withOptions(o cacher.Options) option { return func(s *setup) { s.options = o } }

// watchAll watches everything that matches, as opts say; it ends with the test.
func watchAll(t *testing.T, c storage.Interface, opts storage.ListOptions) watch.Interface {
	t.Helper()
	return watchUntil(t.Context(), t, c, opts)
}

func watchUntil(ctx context.Context, t *testing.T, c storage.Interface, opts storage.ListOptions) watch.Interface {
	t.Helper()
	opts.Recursive = true
	w, err := c.Watch(ctx, podPrefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// everything is a watch of everything from a revision on.
func everything(resourceVersion string) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: resourceVersion, Predicate: storage.Everything}
}

// withBookmarks is everything with bookmarks.
func withBookmarks(opts storage.ListOptions) storage.ListOptions {
	opts.Predicate.AllowWatchBookmarks = true
	return opts
}

// numbered returns a Pod that differs from that of another number.
func numbered(name string, n int) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: "uid", Annotations: map[string]string{"n": fmt.Sprint(n)},
	}}
}

// available returns the events that are there without waiting for any other.
func available(w watch.Interface) (events []watch.Event, open bool) {
	for {
		synctest.Wait()
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return events, false
			}
			events = append(events, event)
		default:
			return events, true
		}
	}
}

// contiguous returns the revision of the last event, and fails if one is missing before it.
func contiguous(t *testing.T, events []watch.Event, after uint64) uint64 {
	t.Helper()
	for _, event := range events {
		if revision := revisionOf(podOf(event.Object)); revision != after+1 {
			t.Fatalf("an event of revision %d follows %d", revision, after)
		}
		after++
	}
	return after
}

// TestSlowWatcher shows that a watcher without a reader misses nothing, and that others do not
// notice.
func TestSlowWatcher(t *testing.T) {
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		slow, quick := watchAll(t, c, everything("1")), watchAll(t, c, everything("1"))
		const written = 200
		for n := range written {
			s.put(numbered("one", n))
			events, open := available(quick)
			g.Expect(open).To(BeTrue())
			g.Expect(events).To(HaveLen(1), "it comes at once")
		}
		events, open := available(slow)
		g.Expect(open).To(BeTrue())
		g.Expect(contiguous(t, events, 1)).To(BeEquivalentTo(written + 1))
		s.put(numbered("one", -1))
		events, _ = available(slow)
		g.Expect(contiguous(t, events, written+1)).To(BeEquivalentTo(written + 2))
	})
}

// TestLeftBehind shows when a slow watcher is told that it was too slow: with the next event that
// it reads, when its next events are not kept any more.
func TestLeftBehind(t *testing.T) {
	const kept = 50
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		slow, slower := watchAll(t, c, everything("1")), watchAll(t, c, everything("1"))
		for n := range kept {
			s.put(numbered("one", n))
			synctest.Wait()
		}
		events, open := available(slow)
		g.Expect(open).To(BeTrue())
		g.Expect(contiguous(t, events, 1)).To(BeEquivalentTo(kept+1), "who is within the history is told nothing")
		for n := range kept {
			s.put(numbered("one", n))
			synctest.Wait()
		}
		events, open = available(slower)
		g.Expect(open).To(BeFalse())
		last := events[len(events)-1]
		contiguous(t, events[:len(events)-1], 1)
		g.Expect(last.Type).To(Equal(watch.Error))
		g.Expect(apierrors.IsResourceExpired(apierrors.FromObject(last.Object))).To(BeTrue(), "%v", last.Object)
		events, open = available(slow)
		g.Expect(open).To(BeTrue())
		contiguous(t, events, kept+1)
	}, withOptions(cacher.Options{HistoryEvents: kept}))
}

// TestWatchOfOneKey watches an object with a name that begins that of another.
func TestWatchOfOneKey(t *testing.T) {
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		s.put(numbered("one", 0))
		s.put(numbered("one-more", 0))
		synctest.Wait()
		w, err := c.Watch(t.Context(), podKey("default", "one"), everything("0"))
		g.Expect(err).NotTo(HaveOccurred())
		s.put(numbered("one-more", 1))
		s.put(numbered("one", 1))
		events, open := available(w)
		g.Expect(open).To(BeTrue())
		var names []string
		for _, event := range events {
			names = append(names, podOf(event.Object).Name)
		}
		g.Expect(names).To(HaveExactElements("one", "one"))
	})
}

// timedBookmark is a bookmark and when it came.
type timedBookmark struct {
	after    time.Duration
	revision uint64
	initial  bool
}

// bookmarksOf returns the bookmarks of a watch until it ends.
func bookmarksOf(w watch.Interface, begin time.Time) (bookmarks []timedBookmark) {
	for event := range w.ResultChan() {
		if event.Type != watch.Bookmark {
			continue
		}
		pod := podOf(event.Object)
		bookmarks = append(bookmarks, timedBookmark{
			after: time.Since(begin), revision: revisionOf(pod), initial: pod.Annotations[metav1.InitialEventsAnnotationKey] == "true",
		})
	}
	return bookmarks
}

func TestBookmarks(t *testing.T) {
	const lifetime = 10*time.Minute + 30*time.Second
	for name, test := range map[string]struct {
		opts    storage.ListOptions
		wanted  bool
		initial bool
	}{
		"not asked for":           {everything("1"), false, false},
		"from a revision":         {withBookmarks(everything("1")), true, false},
		"from the state":          {withBookmarks(everything("0")), true, false},
		"with the initial events": {withBookmarks(storage.ListOptions{Predicate: storage.Everything, SendInitialEvents: ptr.To(true)}), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
				g, begin := NewWithT(t), time.Now()
				s.put(numbered("one", 0))
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), lifetime)
				defer cancel()
				w := watchUntil(ctx, t, c, test.opts)
				s.put(numbered("two", 0)) // there are no bookmarks for what a watch began with
				bookmarks := bookmarksOf(w, begin)
				if test.initial {
					g.Expect(bookmarks[0]).To(Equal(timedBookmark{0, 2, true}))
					bookmarks = bookmarks[1:]
				}
				if !test.wanted {
					g.Expect(bookmarks).To(BeEmpty())
					return
				}
				g.Expect(bookmarks).To(HaveLen(11), "ten minutes and the end")
				for i, b := range bookmarks[:10] {
					g.Expect(b.after).To(BeNumerically("~", time.Duration(i+1)*time.Minute, 10*time.Second))
				}
				g.Expect(lifetime - bookmarks[10].after).To(BeNumerically("~", 2*time.Second, time.Second))
				for _, b := range bookmarks {
					g.Expect(b.revision).To(BeEquivalentTo(3))
					g.Expect(b.initial).To(BeFalse())
				}
			})
		})
	}
}

// TestContextEndsFirst asks with a context that has ended.
func TestContextEndsFirst(t *testing.T) {
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		s.put(numbered("one", 0))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, opts := range []storage.ListOptions{everything(""), everything("0"), everything("1"), withBookmarks(everything("9"))} {
			w := watchUntil(ctx, t, c, opts)
			if _, open := available(w); open {
				t.Errorf("a watch from %q is open", opts.ResourceVersion)
			}
		}
	})
}

// TestContextEndsDuringInitialEvents ends a watch that nobody reads.
func TestContextEndsDuringInitialEvents(t *testing.T) {
	const there = 100
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		for n := range there {
			s.put(numbered(fmt.Sprintf("pod-%03d", n), n))
		}
		synctest.Wait()
		for name, end := range map[string]func(context.CancelFunc, watch.Interface){
			"context": func(cancel context.CancelFunc, _ watch.Interface) { cancel() },
			"stop":    func(_ context.CancelFunc, w watch.Interface) { w.Stop(); w.Stop() },
			"both":    func(cancel context.CancelFunc, w watch.Interface) { cancel(); w.Stop() },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			w := watchUntil(ctx, t, c, everything("0"))
			synctest.Wait()
			end(cancel, w)
			events, open := available(w)
			g.Expect(open).To(BeFalse(), name)
			g.Expect(len(events)).To(And(BeNumerically(">", 0), BeNumerically("<", there)), name)
			cancel()
		}
	})
}

// TestStopWithStuckWatchers stops a Cacher, twice, whose watchers do not read: one follows, one
// catches up, one is at its initial events, and one waits for a bookmark.
func TestStopWithStuckWatchers(t *testing.T) {
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		for n := range 100 {
			s.put(numbered(fmt.Sprintf("pod-%03d", n), n))
		}
		synctest.Wait()
		watches := []watch.Interface{
			watchAll(t, c, everything("0")), watchAll(t, c, everything("2")),
			watchAll(t, c, withBookmarks(everything("101"))),
		}
		s.put(numbered("one", 0))
		synctest.Wait()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			c.Stop()
		}()
		c.Stop()
		<-stopped
		for _, w := range watches {
			_, open := available(w)
			g.Expect(open).To(BeFalse())
			w.Stop()
		}
		_, err := c.Watch(t.Context(), podPrefix, everything("0"))
		g.Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "%v", err)
		g.Expect(c.Wait(t.Context())).NotTo(Succeed())
		g.Expect(c.ReadinessCheck()).NotTo(Succeed())
	})
}
