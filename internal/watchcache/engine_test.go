// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// thing is a value with words to index.
type thing struct{ words string }

type (
	engine = watchcache.Engine[thing, string]
	item   = watchcache.Item[thing]
	change = watchcache.Change[thing, string]
	event  = watchcache.Event[thing, string]
	cursor = watchcache.Cursor[thing, string]
)

func words(value thing, _ string, yield func(string)) {
	for _, word := range strings.Fields(value.words) {
		yield(word)
	}
}

func newEngine(window int) *engine {
	return watchcache.New[thing, string](watchcache.Options[thing]{Window: window, Values: words})
}

func put(key string, revision uint64, w string) change {
	return change{Item: item{Key: key, Revision: revision, Value: thing{w}}}
}

func remove(key string, revision uint64) change {
	return change{Item: item{Key: key, Revision: revision}, Deleted: true}
}

func keys(s *watchcache.Snapshot[thing], prefix, from string) []string {
	found := []string{}
	for item := range s.Items(prefix, from) {
		found = append(found, item.Key)
	}
	return found
}

func TestSnapshotsNeverChange(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	e.AddIndex("words")
	e.Apply(put("a", 1, "x"), put("b", 2, "x y"))
	before := e.Snapshot()
	g.Expect(e.Snapshot()).To(BeIdenticalTo(before), "nothing has changed")
	e.Apply(put("a", 3, "z"), remove("b", 4), put("c", 5, "x"))
	e.Replace([]item{{Key: "d", Revision: 6}}, 6)

	g.Expect(keys(before, "", "")).To(Equal([]string{"a", "b"}))
	g.Expect(before.Revision()).To(Equal(uint64(2)))
	g.Expect(slices.Collect(before.Index("words").Keys("x", ""))).To(Equal([]string{"a", "b"}))
	a, ok := before.Get("a")
	g.Expect(ok).To(BeTrue())
	g.Expect(a).To(Equal(item{Key: "a", Revision: 1, Value: thing{"x"}}))
	g.Expect(keys(e.Snapshot(), "", "")).To(Equal([]string{"d"}))
	g.Expect(e.Snapshot().Index("words").Len()).To(BeZero())
}

func TestItemsWalksARange(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	for i, key := range []string{"b/2", "a/1", "b/1", "c/1", "b/3"} {
		e.Apply(put(key, uint64(i+1), ""))
	}
	s := e.Snapshot()
	g.Expect(keys(s, "", "")).To(Equal([]string{"a/1", "b/1", "b/2", "b/3", "c/1"}))
	g.Expect(keys(s, "b/", "")).To(Equal([]string{"b/1", "b/2", "b/3"}))
	g.Expect(keys(s, "b/", "b/2")).To(Equal([]string{"b/2", "b/3"}))
	g.Expect(keys(s, "b/", "b/15")).To(Equal([]string{"b/2", "b/3"}))
	g.Expect(keys(s, "b/", watchcache.After("b/2"))).To(Equal([]string{"b/3"}))
	g.Expect(keys(s, "", "b/3")).To(Equal([]string{"b/3", "c/1"}))
	g.Expect(keys(s, "d/", "")).To(BeEmpty())
	g.Expect(s.Len()).To(Equal(5))
}

func TestIndexesFollowTheObjects(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	e.Apply(put("a", 1, "x y"))
	e.AddIndex("words")
	e.AddIndex("words")
	e.Apply(put("b", 2, "y"), put("a", 3, "y z"))
	g.Expect(slices.Collect(e.Snapshot().Index("words").Values())).To(Equal([]string{"y", "z"}))
	e.Apply(remove("a", 4))
	g.Expect(slices.Collect(e.Snapshot().Index("words").Values())).To(Equal([]string{"y"}))
	g.Expect(e.Check()).To(Succeed())
	e.Rewrite(func(i item) thing { return thing{i.Value.words + " w"} })
	g.Expect(e.Check()).NotTo(Succeed(), "the values of an index must not change with the form")
	e.RemoveIndex("words")
	g.Expect(e.Snapshot().Index("words")).To(BeNil())
	g.Expect(e.Check()).To(Succeed())
}

func TestRevisionsAndFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		e := newEngine(0)
		fresh := make(chan uint64, 3)
		for _, revision := range []uint64{3, 5, 7} {
			go func() {
				if e.WaitUntilFresh(t.Context(), revision) == nil {
					fresh <- revision
				}
			}()
		}
		synctest.Wait()
		e.Apply(put("a", 3, ""))
		g.Expect(<-fresh).To(Equal(uint64(3)))
		e.Bookmark(6)
		g.Expect(<-fresh).To(Equal(uint64(5)))
		e.Bookmark(4)
		g.Expect(e.Revision()).To(Equal(uint64(6)), "it does not go back")
		e.Replace(nil, 7)
		g.Expect(<-fresh).To(Equal(uint64(7)))
		e.Replace(nil, 2)
		g.Expect(e.Revision()).To(Equal(uint64(2)), "the source was restored")
		e.Bookmark(7)

		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no patience"))
		g.Expect(e.WaitUntilFresh(ctx, 8)).To(MatchError("no patience"))
		g.Expect(e.WaitUntilFresh(ctx, 7)).To(Succeed())
	})
}

// next returns the next batch, which must be there.
func next(g *WithT, s *cursor) watchcache.Batch[thing, string] {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	batch, err := s.Next(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	return batch
}

func TestACursorSeesStateThenEvents(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	e.Apply(put("a", 1, ""))
	s := e.MergingCursor(nil)
	defer s.Close()
	first := next(g, s)
	g.Expect(first.Diff.Initial()).To(BeTrue())
	g.Expect(first.Diff.To.Complete()).To(BeFalse())
	g.Expect(slices.Collect(first.Diff.Events())).To(Equal([]event{{Type: watchcache.Added, Item: item{Key: "a", Revision: 1}}}))

	e.Apply(put("a", 2, "x"), put("b", 3, ""), remove("a", 4), remove("none", 5))
	g.Expect(next(g, s).Events).To(Equal([]event{
		{Type: watchcache.Updated, Position: 1, Item: item{Key: "a", Revision: 2, Value: thing{"x"}}, Previous: item{Key: "a", Revision: 1}},
		{Type: watchcache.Added, Position: 2, Item: item{Key: "b", Revision: 3}},
		{Type: watchcache.Deleted, Position: 3, Item: item{Key: "a", Revision: 4}, Previous: item{Key: "a", Revision: 2, Value: thing{"x"}}},
	}))
	g.Expect(e.Revision()).To(Equal(uint64(5)))
}

// The first batch is told apart from a batch after an empty state.
func TestOnlyTheFirstDiffIsInitial(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(1)
	s, resumed := e.MergingCursor(nil), e.MergingCursor(e.Snapshot())
	defer s.Close()
	defer resumed.Close()
	e.Replace(nil, 1)
	e.Apply(put("a", 2, ""), remove("a", 3))
	g.Expect(next(g, s).Diff.Initial()).To(BeTrue(), "it was given nothing, whatever has happened")
	g.Expect(next(g, resumed).Diff.Initial()).To(BeFalse(), "it has seen a snapshot")
	e.Apply(put("a", 4, ""), put("b", 5, ""))
	g.Expect(s.Lagged()).To(Equal(uint64(1)))
	g.Expect(next(g, s).Diff.Initial()).To(BeFalse(), "it has seen that there was nothing")
	e.Replace(nil, 6)
	g.Expect(next(g, s).Diff.Initial()).To(BeFalse())
}

// A Restore tells of every object once, and not again with each Diff that follows.
func TestARestoreTellsOfEveryObjectOnce(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(2)
	s := e.MergingCursor(nil)
	defer s.Close()
	items := []item{{Key: "a", Revision: 1}, {Key: "b", Revision: 2}}
	e.Replace(items, 9)
	next(g, s)
	e.Restore(items, 5)
	g.Expect(slices.Collect(next(g, s).Diff.Events())).To(HaveLen(2), "an equal version says nothing")

	e.Replace(items, 6)
	g.Expect(slices.Collect(next(g, s).Diff.Events())).To(BeEmpty())
	for n := range uint64(5) { // the cursor lags
		e.Apply(put("c", 7+n, ""))
	}
	g.Expect(slices.Collect(next(g, s).Diff.Events())).To(Equal([]event{{Type: watchcache.Added, Item: item{Key: "c", Revision: 11}}}))
}

func TestReplaceIsOneStep(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	s := e.MergingCursor(nil)
	defer s.Close()
	next(g, s)
	e.Apply(put("changed", 1, ""), put("gone", 2, ""), put("same", 3, ""))
	e.Replace([]item{{Key: "same", Revision: 3}, {Key: "new", Revision: 5}, {Key: "changed", Revision: 4}}, 6)
	// Unread events before the Replace are seen as part of it.
	diff := next(g, s).Diff
	g.Expect(diff.To.Complete()).To(BeTrue())
	g.Expect(slices.Collect(diff.Events())).To(HaveLen(3))
	e.Replace([]item{{Key: "same", Revision: 3}, {Key: "changed", Revision: 8}}, 9)
	g.Expect(slices.Collect(next(g, s).Diff.Events())).To(Equal([]event{
		{Type: watchcache.Updated, Item: item{Key: "changed", Revision: 8}, Previous: item{Key: "changed", Revision: 4}},
		{Type: watchcache.Deleted, Item: item{Key: "new", Revision: 9}, Previous: item{Key: "new", Revision: 5}},
	}))
	g.Expect(s.Lagged()).To(BeZero())
}

func TestALaggingCursorGetsOneEventAKey(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(4)
	slow, quick := e.MergingCursor(nil), e.MergingCursor(nil)
	defer slow.Close()
	defer quick.Close()
	next(g, slow)
	next(g, quick)
	e.Apply(put("a", 1, ""), put("b", 2, ""))
	g.Expect(next(g, slow).Events).To(HaveLen(2))
	for revision := uint64(3); revision < 20; revision++ {
		e.Apply(put("a", revision, ""))
		for _, ev := range next(g, quick).Events {
			g.Expect(ev.Item.Revision).To(BeNumerically("<=", revision))
		}
	}
	e.Apply(remove("b", 20))
	g.Expect(slow.Lagged()).To(Equal(uint64(1)))
	g.Expect(quick.Lagged()).To(BeZero())
	g.Expect(slices.Collect(next(g, slow).Diff.Events())).To(Equal([]event{
		{Type: watchcache.Updated, Item: item{Key: "a", Revision: 19}, Previous: item{Key: "a", Revision: 1}},
		{Type: watchcache.Deleted, Item: item{Key: "b", Revision: 20}, Previous: item{Key: "b", Revision: 2}},
	}))
	e.Apply(put("c", 21, ""))
	g.Expect(next(g, slow).Events).To(HaveLen(1), "it is active again")
}

func TestAttachmentsGoWithTheLastReader(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(4)
	attach := func(key string, revision uint64) change {
		c := put(key, revision, "")
		c.Attached = "attached"
		return c
	}
	first, second := e.MergingCursor(nil), e.MergingCursor(nil)
	next(g, first)
	next(g, second)
	e.Apply(attach("a", 1))
	g.Expect(next(g, first).Events[0].Attached).To(Equal("attached"))
	e.Apply(attach("b", 2))
	next(g, first) // which says that a was consumed
	g.Expect(next(g, second).Events).To(HaveEach(HaveField("Attached", "attached")))
	second.Close()
	first.Close()
	third := e.MergingCursor(e.Snapshot())
	next(g, third)
	e.Apply(attach("c", 3))
	fourth := e.MergingCursor(nil)
	g.Expect(next(g, third).Events[0].Attached).To(Equal("attached"))
	for ev := range next(g, fourth).Diff.Events() {
		g.Expect(ev.Attached).To(BeEmpty())
	}
}

func TestNextEndsWithItsContextAndWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		e := newEngine(0)
		s := e.MergingCursor(nil)
		next(g, s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { _, err := s.Next(ctx); ended <- err }()
		synctest.Wait()
		cancel()
		g.Expect(<-ended).To(MatchError(context.Canceled))
		go func() { _, err := s.Next(t.Context()); ended <- err }()
		synctest.Wait()
		s.Close()
		s.Close()
		g.Expect(<-ended).To(MatchError(watchcache.ErrClosed))
		_, err := s.Next(t.Context())
		g.Expect(err).To(MatchError(watchcache.ErrClosed))
	})
}

// observer rebuilds the state from what it is told, and checks each step.
type observer struct {
	state map[string]item
	err   error
}

func (o *observer) see(ev event) {
	was, there := o.state[ev.Item.Key]
	switch {
	case o.err != nil:
	case there == (ev.Type == watchcache.Added):
		o.err = fmt.Errorf("event %d of %q, there before: %t", ev.Type, ev.Item.Key, there)
	case there && was != ev.Previous:
		o.err = fmt.Errorf("previous of %q is %v, was told of %v", ev.Item.Key, ev.Previous, was)
	case ev.Item.Revision < was.Revision:
		o.err = fmt.Errorf("%q goes back from %d to %d", ev.Item.Key, was.Revision, ev.Item.Revision)
	}
	if ev.Type == watchcache.Deleted {
		delete(o.state, ev.Item.Key)
	} else {
		o.state[ev.Item.Key] = ev.Item
	}
}

// follow consumes s until done has been closed and nothing is left. The pace says
// now and then that it is time to dawdle.
func (o *observer) follow(s *cursor, done <-chan struct{}, dawdle func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-done; cancel() }()
	for {
		batch, err := s.Next(ctx)
		if err != nil {
			return
		}
		if batch.Diff != nil {
			for ev := range batch.Diff.Events() {
				o.see(ev)
			}
		}
		for _, ev := range batch.Events {
			o.see(ev)
		}
		dawdle()
	}
}

// TestObserversRebuildTheState has a random writer, and observers of every pace
// that rebuild the state from their events; at the end all must agree.
func TestObserversRebuildTheState(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	g := NewWithT(t)
	e := newEngine(8)
	e.AddIndex("words")

	done := make(chan struct{})
	turns := make(chan struct{}) // lets a dawdling observer wait for the writer
	var wg sync.WaitGroup
	observers := make([]*observer, 6)
	for i := range observers {
		o := &observer{state: map[string]item{}}
		observers[i] = o
		s := e.MergingCursor(nil)
		wg.Go(func() {
			defer s.Close()
			o.follow(s, done, func() {
				for range i * 3 {
					select {
					case <-turns:
					case <-done:
					}
				}
			})
		})
	}

	want := map[string]item{}
	for revision := uint64(1); revision <= 3000; revision++ {
		key := fmt.Sprint("k", random.IntN(20))
		switch random.IntN(100) {
		case 0: // a relist: some objects are lost, some new, some as they were
			for key := range want {
				if random.IntN(3) == 0 {
					delete(want, key)
				}
			}
			want[key] = item{Key: key, Revision: revision, Value: thing{"relisted"}}
			e.Replace(slices.Collect(maps.Values(want)), revision)
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15:
			delete(want, key)
			e.Apply(remove(key, revision))
		default:
			i := item{Key: key, Revision: revision, Value: thing{fmt.Sprint("w", random.IntN(5), " w", random.IntN(5))}}
			want[key] = i
			e.Apply(change{Item: i})
		}
		if revision%50 == 0 {
			g.Expect(e.Check()).To(Succeed(), "revision %d", revision)
		}
		select {
		case turns <- struct{}{}:
		default:
		}
	}
	// Every observer gets what is left, and then finds its context ended.
	close(done)
	wg.Wait()
	for i, o := range observers {
		g.Expect(o.err).NotTo(HaveOccurred(), "observer %d", i)
		g.Expect(o.state).To(Equal(want), "observer %d", i)
	}
	g.Expect(keys(e.Snapshot(), "", "")).To(Equal(slices.Sorted(maps.Keys(want))))
}
