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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// follower follows an engine with a cursor and compares what it is given with the log of
// the model.
type follower struct {
	engine   *engine
	cursor   *cursor
	expires  bool
	position uint64          // of the first entry of the log that it has not passed
	seen     map[string]item // the state there, with the silent changes before it
	revision uint64          // of the newest batch
	overruns int

	mu    *sync.Mutex // guards the model
	model *model
}

// begin begins with a new cursor: with the state of now if it expires, otherwise with the
// empty state.
func (f *follower) begin() {
	if !f.expires {
		f.cursor, f.seen = f.engine.MergingCursor(nil), map[string]item{}
		return
	}
	s := f.engine.Snapshot()
	f.cursor, f.position, f.seen = f.engine.ExpiringCursor(s.Position(), 5), s.Position(), itemsIn(s)
}

func itemsIn(s *watchcache.Snapshot[thing]) map[string]item {
	items := map[string]item{}
	for i := range s.Items("", "") {
		items[i.Key] = i
	}
	return items
}

// run follows until ctx ends, and calls dawdle behind each batch.
func (f *follower) run(ctx context.Context, dawdle func()) error {
	defer func() { f.cursor.Close() }()
	for {
		batch, err := f.cursor.Next(ctx)
		switch {
		case f.expires && errors.Is(err, watchcache.ErrExpired):
			if err := f.overrun(); err != nil {
				return err
			}
			f.begin()
			continue
		case errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			return err
		}
		if err := f.take(batch); err != nil {
			return err
		}
		if s, ok := f.engine.At(batch.Revision); ok && s.Revision() != batch.Revision {
			return fmt.Errorf("the state at %d says that it is of %d", batch.Revision, s.Revision())
		}
		dawdle()
	}
}

// overrun returns an error if the engine still has what comes next.
func (f *follower) overrun() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.model
	f.overruns++
	kept := m.next() - uint64(len(m.events)-m.gone)
	if f.position >= kept && !slices.ContainsFunc(m.log[f.position:], func(ev modelEvent) bool { return ev.replaced }) {
		return fmt.Errorf("overrun at position %d, though the events from %d on are kept", f.position, kept)
	}
	return nil
}

func (f *follower) take(batch watchcache.Batch[thing, string]) error {
	f.revision = batch.Revision
	if batch.Diff != nil {
		return f.takeDiff(batch)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	want, err := f.passLocked(batch.Position)
	if err != nil {
		return err
	}
	if !slices.Equal(batch.Events, want) {
		return fmt.Errorf("up to position %d it was given\n%v, not\n%v", batch.Position, batch.Events, want)
	}
	for _, ev := range f.model.log[f.position:] {
		if ev.replaced {
			break
		}
		if ev.revision < batch.Revision {
			return fmt.Errorf("it was not given the event of revision %d, though everything up to %d", ev.revision, batch.Revision)
		}
	}
	return nil
}

// passLocked passes the entries of the log before a position, and returns the events among
// them that the cursor is to be given.
func (f *follower) passLocked(position uint64) (want []event, err error) {
	for ; f.position < position; f.position++ {
		ev := f.model.log[f.position]
		switch {
		case ev.replaced:
			return nil, fmt.Errorf("it has passed the Replace at position %d", f.position)
		case ev.Type == watchcache.Deleted:
			delete(f.seen, ev.Item.Key)
		default:
			f.seen[ev.Item.Key] = ev.Item
		}
		if !ev.silent {
			want = append(want, ev.event)
		}
	}
	return want, nil
}

func (f *follower) takeDiff(batch watchcache.Batch[thing, string]) error {
	if !batch.Diff.Initial() {
		if err := f.overrun(); err != nil {
			return err
		}
		f.mu.Lock()
		want, err := f.passLocked(batch.Diff.From.Position())
		f.mu.Unlock()
		if err != nil || len(want) > 0 {
			return fmt.Errorf("while it waited it passed %v, error %w", want, err)
		}
	}
	if from := itemsIn(batch.Diff.From); !maps.Equal(from, f.seen) {
		return fmt.Errorf("the Diff leads from\n%v, it has seen\n%v", from, f.seen)
	}
	f.position = batch.Position
	for ev := range batch.Diff.Events() {
		if was := f.seen[ev.Item.Key]; was != ev.Previous {
			return fmt.Errorf("previous of %q is %v, it has seen %v", ev.Item.Key, ev.Previous, was)
		}
		if delete(f.seen, ev.Item.Key); ev.Type != watchcache.Deleted {
			f.seen[ev.Item.Key] = ev.Item
		}
	}
	to := itemsIn(batch.Diff.To)
	same := func(a, b item) bool { return a.Revision == b.Revision } // a source that was restored may reach it again
	if !maps.EqualFunc(f.seen, to, same) {
		return fmt.Errorf("the events of the Diff lead to\n%v, not to\n%v", f.seen, to)
	}
	f.seen = to
	return nil
}

// TestCursorsAgreeWithTheLog has cursors of both policies and of every pace behind a random
// writer that is silent now and then, writes bookmarks and transactions, and replaces the state.
// Each is given each event once and in order, or is overrun with a reason.
func TestCursorsAgreeWithTheLog(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		h := history{MinAge: 20 * time.Second, MaxEvents: 40, MaxBytes: 1 << 20, Size: size}
		clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
		m := &model{history: h, window: 8, silent: true, now: clock.Now(), state: map[string]item{}, states: map[uint64]map[string]item{}}
		h.Clock = clock
		e := watchcache.New[thing, string](watchcache.Options[thing]{Window: m.window, Values: words, History: &h})
		e.AddIndex("words")
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var wg sync.WaitGroup
		var followers []*follower
		for n := range 8 {
			f := &follower{engine: e, expires: n%2 == 0, mu: &mu, model: m}
			followers = append(followers, f)
			f.begin()
			random, pace := rand.New(rand.NewPCG(seed, uint64(n)+1)), []int64{0, 3, 20, 80}[n/2]
			wg.Go(func() {
				if err := f.run(ctx, func() { time.Sleep(time.Duration(pace*random.Int64N(1000)) * time.Microsecond) }); err != nil {
					t.Errorf("cursor %d, which expires: %t: %v", n, f.expires, err)
				}
			})
		}
		random := rand.New(rand.NewPCG(seed, 0))
		for step := range 4000 {
			mu.Lock()
			m.step(e, clock, random)
			mu.Unlock()
			if random.IntN(2) == 0 {
				time.Sleep(time.Millisecond)
			}
			if step%100 == 0 {
				g.Expect(e.Check()).To(Succeed())
			}
		}
		mu.Lock()
		m.apply(put("end", m.revision+1, ""))
		e.Apply(put("end", m.revision, ""))
		mu.Unlock()
		time.Sleep(time.Minute) // all come to the end
		synctest.Wait()
		cancel()
		wg.Wait()
		for n, f := range followers {
			g.Expect(f.seen).To(Equal(m.state), "cursor %d", n)
			g.Expect(f.position).To(Equal(m.next()), "cursor %d", n)
			g.Expect(f.revision).To(Equal(m.revision), "cursor %d", n)
			g.Expect(f.overruns).To(BeNumerically(">", 0), "cursor %d", n)
		}
		g.Expect(followers[6].overruns).To(BeNumerically(">", followers[0].overruns+20), "one is slow, the other is not")
		g.Expect(followers[7].cursor.Lagged()).To(BeNumerically(">", 20))
	})
}

// An expiring cursor can be given once more what it was given; a merging one cannot.
func TestSeeking(t *testing.T) {
	g := NewWithT(t)
	e, _ := newHistory(history{MinAge: time.Minute})
	e.Apply(put("a", 1, ""), silent(put("a", 2, "")), put("a", 3, ""), put("a", 4, ""))
	c := e.ExpiringCursor(0, 2)
	batch := next(g, c)
	g.Expect(batch.Events).To(HaveLen(2))
	g.Expect(batch.Revision).To(Equal(uint64(3)))
	second := batch.Events[1].Position
	g.Expect(second).To(Equal(uint64(2)), "the silent one has a position too")
	c.Seek(second)
	g.Expect(c.State().Len()).To(Equal(1))
	g.Expect(next(g, c).Events).To(HaveExactElements(HaveField("Position", second), HaveField("Position", second+1)))
	empty, err := c.Poll()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(empty).To(Equal(watchcache.Batch[thing, string]{Events: []event{}, Position: 4, Revision: 4}))
	c.Close()
	_, err = c.Poll()
	g.Expect(err).NotTo(HaveOccurred(), "it needs no end, and has none")
	e.Replace(nil, 9)
	g.Expect(c.State()).To(BeNil())

	merging := e.MergingCursor(nil)
	g.Expect(func() { merging.Seek(0) }).To(Panic())
	g.Expect(merging.Poll()).To(HaveField("Diff.To", BeIdenticalTo(e.Snapshot())))
	g.Expect(merging.Poll()).To(HaveField("Events", BeEmpty()))
	merging.Close()
	_, err = merging.Poll()
	g.Expect(err).To(MatchError(watchcache.ErrClosed))
}
