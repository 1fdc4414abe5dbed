// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

type history = watchcache.History[thing]

func size(value thing) int { return len(value.words) }

// newHistory returns an engine that always keeps two events, and more as h says.
func newHistory(h history) (*engine, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	h.Clock = clock
	return watchcache.New[thing, string](watchcache.Options[thing]{Window: 2, Values: words, History: &h}), clock
}

// revisions returns those of the events from a position on.
func revisions(g *WithT, e *engine, from uint64) []uint64 {
	batch, err := e.ExpiringCursor(from, 100).Poll()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(batch.Position).To(Equal(from + uint64(len(batch.Events))))
	g.Expect(batch.Revision).To(Equal(e.Revision()))
	found := []uint64{}
	for i, ev := range batch.Events {
		g.Expect(ev.Position).To(Equal(from + uint64(i)))
		found = append(found, ev.Item.Revision)
	}
	return found
}

func TestAHistoryKeepsWhatIsYoung(t *testing.T) {
	g := NewWithT(t)
	e, clock := newHistory(history{MinAge: time.Minute})
	for revision := uint64(1); revision <= 5; revision++ {
		e.Apply(put("a", revision, "x"))
	}
	g.Expect(e.Oldest()).To(BeZero())
	clock.SetTime(clock.Now().Add(time.Minute - 1))
	e.Apply(put("a", 6, "x"))
	g.Expect(revisions(g, e, 0)).To(Equal([]uint64{1, 2, 3, 4, 5, 6}))
	clock.SetTime(clock.Now().Add(1))
	e.Apply(put("a", 7, "x"))
	g.Expect(e.Oldest()).To(Equal(uint64(5)))
	g.Expect(e.Holds(4)).To(BeFalse(), "it has left the window")
	_, err := e.ExpiringCursor(4, 1).Poll()
	g.Expect(err).To(MatchError(watchcache.ErrExpired))
	clock.SetTime(clock.Now().Add(time.Hour))
	g.Expect(revisions(g, e, 5)).To(Equal([]uint64{6, 7}), "two are always kept")
	e.Apply(put("b", 8, ""))
	g.Expect(revisions(g, e, 6)).To(Equal([]uint64{7, 8}))
	g.Expect(e.Check()).To(Succeed())
}

func TestAHistoryIsBoundedInEventsAndBytes(t *testing.T) {
	g := NewWithT(t)
	e, _ := newHistory(history{MinAge: time.Minute, MaxEvents: 3})
	for revision := uint64(1); revision <= 5; revision++ {
		e.Apply(put("a", revision, "x"))
	}
	g.Expect(e.Oldest()).To(Equal(uint64(2)))
	g.Expect(revisions(g, e, 2)).To(Equal([]uint64{3, 4, 5}))

	e, _ = newHistory(history{MinAge: time.Minute, MaxBytes: 10, Size: size})
	e.Apply(put("a", 1, "four"), put("a", 2, "four"), put("a", 3, "four"), put("b", 4, "not counted, it is in the state"))
	g.Expect(e.Oldest()).To(BeZero())
	e.Apply(put("a", 5, "four"))
	g.Expect(revisions(g, e, 2)).To(Equal([]uint64{3, 4, 5}), "the first one held nothing, so two had to go")
	e.Apply(remove("b", 6))
	g.Expect(revisions(g, e, 5)).To(Equal([]uint64{6}), "the newest event is kept in any case")
	g.Expect(e.Check()).To(Succeed())

	g.Expect(func() { newHistory(history{MaxBytes: 1}) }).To(PanicWith(ContainSubstring("without History.Size")))
}

func TestTheRingFollowsTheRate(t *testing.T) {
	g := NewWithT(t)
	e, clock := newHistory(history{MinAge: time.Minute})
	write := func(n int, every time.Duration) {
		for range n {
			clock.SetTime(clock.Now().Add(every))
			e.Apply(put("a", e.Revision()+1, ""))
		}
	}
	write(10_000, time.Millisecond)
	length, events := e.Ring()
	g.Expect(events).To(Equal(10_000))
	g.Expect(length).To(BeNumerically("<=", 20_000))
	write(100, time.Second)
	length, events = e.Ring()
	g.Expect(events).To(BeNumerically("~", 60, 1))
	g.Expect(length).To(BeNumerically("<=", 256))
	g.Expect(e.Check()).To(Succeed())
}

// Nothing may be written for long, and then old events are of no use to anybody.
func TestABookmarkLetsGoOfWhatIsOld(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	e := watchcache.New[*[1024]byte, struct{}](watchcache.Options[*[1024]byte]{Window: 1, History: &watchcache.History[*[1024]byte]{MinAge: time.Minute, Clock: clock}})
	write := func(revision uint64) weak.Pointer[[1024]byte] {
		value := new([1024]byte)
		e.Apply(watchcache.Change[*[1024]byte, struct{}]{Item: watchcache.Item[*[1024]byte]{Key: "a", Revision: revision, Value: value}})
		return weak.Make(value)
	}
	old := write(1)
	write(2)
	write(3)
	runtime.GC()
	g.Expect(old.Value()).NotTo(BeNil(), "nobody reads, and it is kept")
	clock.SetTime(clock.Now().Add(time.Minute))
	e.Bookmark(4)
	runtime.GC()
	g.Expect(old.Value()).To(BeNil())
	g.Expect(e.Oldest()).To(Equal(uint64(2)))
	runtime.KeepAlive(e)
}

func TestPositionsOfRevisions(t *testing.T) {
	g := NewWithT(t)
	e, _ := newHistory(history{MinAge: time.Minute})
	e.Replace(nil, 10)
	base := e.Snapshot().Position()
	// Revision 12 is a transaction, and 15 the bookmark behind it.
	e.Apply(put("a", 11, ""), put("a", 12, ""), put("b", 12, ""), put("c", 12, ""))
	e.Bookmark(15)
	for revision, want := range map[uint64]uint64{10: base, 11: base + 1, 12: base + 4, 14: base + 4, 15: base + 4, 99: base + 4} {
		position, ok := e.Position(revision)
		g.Expect(ok).To(BeTrue())
		g.Expect(position).To(Equal(want), "revision %d", revision)
	}
	g.Expect(e.Oldest()).To(Equal(uint64(10)))
	_, ok := e.Position(9)
	g.Expect(ok).To(BeFalse())
	e.Apply(put("a", 13, "late"))
	late, _ := e.Position(14)
	g.Expect(late).To(Equal(base+4), "who has seen 14 has not seen it")
	late, _ = e.Position(15)
	g.Expect(late).To(Equal(base + 5))

	e, _ = newHistory(history{})
	e.Apply(put("a", 11, ""), put("a", 12, ""), put("b", 12, ""), put("c", 12, ""))
	g.Expect(e.Oldest()).To(Equal(uint64(12)), "a part of the transaction is no history of it")
	g.Expect(revisions(g, e, 2)).To(HaveLen(2))
}

// Earlier reads say nothing of the state after a Replace: a cursor must hear of it, even if no
// event was left to read.
func TestAReplaceBeginsTheHistoryAnew(t *testing.T) {
	g := NewWithT(t)
	e, _ := newHistory(history{MinAge: time.Minute})
	e.Replace(nil, 1)
	e.Apply(put("a", 2, "x"))
	e.Bookmark(5)
	_, ok := e.At(4)
	g.Expect(ok).To(BeTrue())
	read := e.Snapshot().Position()
	e.Replace([]item{{Key: "b", Revision: 3}}, 3)
	_, err := e.ExpiringCursor(read, 1).Poll()
	g.Expect(err).To(MatchError(watchcache.ErrExpired))
	g.Expect(e.Oldest()).To(Equal(uint64(3)))
	for _, revision := range []uint64{2, 4} {
		_, ok = e.At(revision)
		g.Expect(ok).To(BeFalse(), "revision %d, remembered or not", revision)
	}
	e.Apply(put("c", 6, ""))
	s, ok := e.At(4)
	g.Expect(ok).To(BeTrue())
	g.Expect(keys(s, "", "")).To(Equal([]string{"b"}))
	g.Expect(revisions(g, e, s.Position())).To(Equal([]uint64{6}))
}

func TestOlderStatesAreRememberedForAWhile(t *testing.T) {
	g := NewWithT(t)
	e, clock := newHistory(history{MinAge: time.Minute})
	e.AddIndex("words")
	e.Apply(put("a", 1, "x"), put("a", 2, "y"), remove("a", 3))
	first, _ := e.At(1)
	g.Expect(first.Revision()).To(Equal(uint64(1)))
	g.Expect(slices.Collect(first.Index("words").Values())).To(Equal([]string{"x"}))
	e.Apply(put("a", 4, "z"))
	again, _ := e.At(1)
	g.Expect(again).To(BeIdenticalTo(first), "the next page of the list")
	for revision := range uint64(watchcache.MaxNear) {
		e.Apply(put("a", 5+revision, "z"))
		e.At(4 + revision)
	}
	again, _ = e.At(1)
	g.Expect(again).NotTo(BeIdenticalTo(first), "others were asked for")
	e.AddIndex("others")
	indexed, _ := e.At(1)
	g.Expect(indexed.Index("others").Len()).To(Equal(1), "an index that came later")
	clock.SetTime(clock.Now().Add(time.Hour))
	e.Apply(put("a", 10_000, ""))
	_, ok := e.At(1)
	g.Expect(ok).To(BeFalse())
}

// States that share little with one another take memory each.
func TestFewStatesAreRememberedThatAreFarApart(t *testing.T) {
	g := NewWithT(t)
	e, _ := newHistory(history{MinAge: time.Minute})
	const distance = watchcache.MaxMoved / 4
	for revision := range uint64(distance * (watchcache.MaxRecent + 2)) {
		e.Apply(put("a", 1+revision, ""))
	}
	first, _ := e.At(1)
	far := func(states int) {
		for n := range uint64(states) {
			s, _ := e.At(1 + (n+1)*distance)
			item, _ := s.Get("a")
			g.Expect(item.Revision).To(Equal(1 + (n+1)*distance))
		}
	}
	far(watchcache.MaxRecent - 1)
	again, _ := e.At(1)
	g.Expect(again).To(BeIdenticalTo(first))
	far(watchcache.MaxRecent)
	again, _ = e.At(1)
	g.Expect(again).NotTo(BeIdenticalTo(first))
}

// The state of a source that was restored may reach the same revision again.
func TestAStateThatIsMadeDuringAReplaceIsNotRemembered(t *testing.T) {
	g := NewWithT(t)
	var e *engine
	during := func() {}
	e = watchcache.New[thing, string](watchcache.Options[thing]{History: &history{}, Values: func(thing, string, func(string)) {
		now := during
		during = func() {}
		now()
	}})
	e.AddIndex("")
	e.Apply(put("a", 7, ""), put("a", 9, ""))
	during = func() { e.Replace([]item{{Key: "b", Revision: 3}}, 3) }
	before, ok := e.At(7)
	g.Expect(ok).To(BeTrue())
	g.Expect(keys(before, "", "")).To(Equal([]string{"a"}))
	e.Apply(put("b", 7, ""), put("b", 9, ""))
	after, ok := e.At(7)
	g.Expect(ok).To(BeTrue())
	g.Expect(keys(after, "", "")).To(Equal([]string{"b"}))
}

func TestWithoutAHistoryThereIsOnlyTheStateOfNow(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	e.Apply(put("a", 1, ""), put("a", 2, ""))
	g.Expect(e.Oldest()).To(Equal(uint64(2)))
	_, ok := e.At(1)
	g.Expect(ok).To(BeFalse())
	s, _ := e.At(2)
	g.Expect(s).To(BeIdenticalTo(e.Snapshot()))
	_, ok = e.Position(1)
	g.Expect(ok).To(BeFalse())
	_, err := e.ExpiringCursor(0, 2).Poll()
	g.Expect(err).To(MatchError(watchcache.ErrExpired), "their values are gone")
	_, err = e.ExpiringCursor(e.Snapshot().Position(), 2).Next(t.Context())
	g.Expect(err).To(MatchError(watchcache.ErrExpired), "those that come would be gone as well")
}

func TestWaitingForEventsAndBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		e, _ := newHistory(history{})
		e.Replace(nil, 10)
		type result struct {
			watchcache.Batch[thing, string]
			err error
		}
		results := make(chan result)
		wait := func(ctx context.Context, c *cursor) {
			go func() {
				batch, err := c.Next(ctx)
				results <- result{batch, err}
			}()
			synctest.Wait()
		}
		at := e.Snapshot().Position()
		expires, merging := e.ExpiringCursor(at, 4), e.MergingCursor(e.Snapshot())
		defer merging.Close()
		next(g, merging)
		wait(t.Context(), merging)
		e.Bookmark(11)
		synctest.Wait()
		g.Expect(results).NotTo(Receive(), "a bookmark is no event")
		e.Apply(put("a", 12, ""))
		written := []event{{Type: watchcache.Added, Position: at, Item: item{Key: "a", Revision: 12}}}
		want := result{watchcache.Batch[thing, string]{Events: written, Position: at + 1, Revision: 12}, nil}
		g.Expect(<-results).To(Equal(want))
		wait(t.Context(), expires)
		g.Expect(<-results).To(Equal(want))

		wait(t.Context(), expires)
		e.Bookmark(13)
		got := <-results
		g.Expect(got.Events).To(BeEmpty())
		g.Expect(got.Position).To(Equal(at + 1))
		g.Expect(got.Revision).To(Equal(uint64(13)))
		wait(t.Context(), expires)
		e.Replace(nil, 3)
		g.Expect((<-results).err).To(MatchError(watchcache.ErrExpired), "the position is lost")

		ctx, cancel := context.WithCancelCause(t.Context())
		expires = e.ExpiringCursor(e.Snapshot().Position(), 4)
		g.Expect(next(g, expires).Revision).To(Equal(uint64(3)), "it was told of none")
		wait(ctx, expires)
		cancel(errors.New("no patience"))
		g.Expect((<-results).err).To(MatchError("no patience"))
	})
}

func TestRanksAndCounts(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	all := []string{"", "a", "a/1", "a/2", "a/\xff", "b", "b/1", "\xff", "\xff\xff"}
	for i, key := range all {
		e.Apply(put(key, uint64(i+1), ""))
	}
	slices.Sort(all)
	s := e.Snapshot()
	for rank, key := range all {
		g.Expect(s.Rank(key)).To(Equal(rank), "%q", key)
		g.Expect(s.Rank(key+"\x00")).To(Equal(rank+1), "%q", key)
	}
	for _, prefix := range append(all, "c", "a/\xff\xff") {
		for _, from := range append(all, "a/15", "z") {
			g.Expect(s.Count(prefix, from)).To(Equal(len(keys(s, prefix, from))), "%q from %q", prefix, from)
		}
	}
}
