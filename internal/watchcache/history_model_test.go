// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// model is the naive history: it keeps everything, and counts what may be gone.
type model struct {
	history  history
	window   int
	silent   bool // now and then it writes silently
	now      time.Time
	state    map[string]item
	revision uint64
	log      []modelEvent               // everything that was ever written, at its position
	events   []modelEvent               // since the last Replace
	gone     int                        // how many of them
	oldest   uint64                     //
	states   map[uint64]map[string]item // at the revisions that were reached since then
}

type modelEvent struct {
	event
	revision uint64
	at       time.Time
	silent   bool
	replaced bool // it is a Replace
}

// next returns the position of the next event.
func (m *model) next() uint64 { return uint64(len(m.log)) }

// written says that the state is of a revision now.
func (m *model) written(revision uint64) {
	m.revision = max(m.revision, revision)
	m.states[m.revision] = maps.Clone(m.state)
}

func (m *model) apply(c change) {
	previous, there := m.state[c.Item.Key]
	ev := event{Type: watchcache.Added, Position: m.next(), Item: c.Item, Previous: previous}
	switch {
	case c.Deleted && there:
		ev.Type, ev.Item.Value = watchcache.Deleted, thing{}
		delete(m.state, c.Item.Key)
	case c.Deleted:
		m.written(c.Item.Revision)
		return
	default:
		if there {
			ev.Type = watchcache.Updated
		}
		m.state[c.Item.Key] = c.Item
	}
	m.written(c.Item.Revision)
	m.events = append(m.events, modelEvent{event: ev, revision: m.revision, at: m.now, silent: c.Silent})
	m.log = append(m.log, m.events[len(m.events)-1])
	m.expire()
}

func (m *model) replace(items []item, revision uint64) {
	m.state, m.states = map[string]item{}, map[uint64]map[string]item{}
	for _, i := range items {
		m.state[i.Key] = i
	}
	m.events, m.gone, m.oldest, m.revision = nil, 0, revision, revision
	m.log = append(m.log, modelEvent{replaced: true})
	m.written(revision)
}

func (m *model) expire() {
	for len(m.events)-m.gone > 1 {
		left := m.events[m.gone:]
		bytes := 0
		for _, ev := range left {
			bytes += size(ev.Previous.Value)
		}
		old := m.now.Sub(left[0].at) >= m.history.MinAge && len(left) > m.window
		if !old && len(left) <= m.history.MaxEvents && bytes <= m.history.MaxBytes {
			return
		}
		m.oldest = max(m.oldest, left[0].revision)
		m.gone++
	}
}

// at returns the state at a revision that the history reaches back to.
func (m *model) at(revision uint64) map[string]item {
	for m.states[revision] == nil {
		revision--
	}
	return m.states[revision]
}

// check compares an engine with the model at a random revision around the end.
func (m *model) check(g *WithT, e *engine, random *rand.Rand) {
	g.Expect(e.Oldest()).To(Equal(m.oldest))
	g.Expect(e.Revision()).To(Equal(m.revision))
	revision := m.revision + 2 - min(m.revision+2, random.Uint64N(20))
	if random.IntN(3) == 0 {
		revision = m.oldest + 1 - min(m.oldest+1, random.Uint64N(3))
	}
	s, ok := e.At(revision)
	g.Expect(ok).To(Equal(revision >= m.oldest && revision <= m.revision), "revision %d", revision)
	position, known := e.Position(revision)
	g.Expect(known).To(Equal(revision >= m.oldest), "revision %d", revision)
	if ok {
		g.Expect(s.Revision()).To(Equal(revision))
		g.Expect(s.Position()).To(Equal(position))
		m.checkState(g, s, m.at(revision), random)
	}
	if known {
		m.checkEvents(g, e, position, revision, random)
	}
}

func (m *model) checkState(g *WithT, s *watchcache.Snapshot[thing], want map[string]item, random *rand.Rand) {
	got, indexed, pairs := map[string]item{}, map[string][]string{}, 0
	for i := range s.Items("", "") {
		got[i.Key] = i
	}
	g.Expect(got).To(Equal(want))
	for _, key := range slices.Sorted(maps.Keys(want)) {
		for _, word := range slices.Compact(slices.Sorted(slices.Values(strings.Fields(want[key].Value.words)))) {
			indexed[word] = append(indexed[word], key)
			pairs++
		}
	}
	g.Expect(s.Index("words").Len()).To(Equal(pairs))
	for word, keys := range indexed {
		g.Expect(slices.Collect(s.Index("words").Keys(word, ""))).To(Equal(keys))
	}
	rank, key := 0, fmt.Sprint("k", random.IntN(60))
	for other := range want {
		if other < key {
			rank++
		}
	}
	g.Expect(s.Rank(key)).To(Equal(rank))
	g.Expect(s.Count("k1", key)).To(Equal(len(keys(s, "k1", key))))
}

func (m *model) checkEvents(g *WithT, e *engine, position, revision uint64, random *rand.Rand) {
	var want, got []event
	for _, ev := range m.events[m.gone:] {
		if ev.revision > revision && !ev.silent {
			want = append(want, ev.event)
		}
	}
	size := 1 + random.IntN(9)
	for c := e.ExpiringCursor(position, size); ; {
		batch, err := c.Poll()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(batch.Events)).To(BeNumerically("<=", size))
		if got = append(got, batch.Events...); len(batch.Events) < size {
			g.Expect(batch.Position).To(Equal(m.next()))
			g.Expect(batch.Revision).To(Equal(m.revision))
			break
		}
		for _, ev := range m.log[batch.Position:] {
			g.Expect(ev.revision).To(BeNumerically(">", batch.Revision), "it was not given yet")
		}
	}
	g.Expect(got).To(HaveLen(len(want)), "events after revision %d", revision)
	for i := range want {
		g.Expect(got[i]).To(Equal(want[i]))
	}
}

func TestAHistoryAgreesWithANaiveOne(t *testing.T) {
	for _, h := range []history{
		{MinAge: time.Minute, MaxEvents: 60, MaxBytes: 300, Size: size},
		{MinAge: time.Minute, MaxEvents: 1000, MaxBytes: 1 << 20, Size: size},
		{MinAge: time.Hour, MaxEvents: 1000, MaxBytes: 40, Size: size},
		{MaxEvents: 5, MaxBytes: 1 << 20, Size: size},
	} {
		seed := rand.Uint64()
		t.Logf("seed %d: %+v", seed, h)
		random := rand.New(rand.NewPCG(seed, 0))
		g := NewWithT(t)
		clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
		m := &model{history: h, window: 8, silent: true, now: clock.Now(), state: map[string]item{}, states: map[uint64]map[string]item{0: {}}}
		h.Clock = clock
		e := watchcache.New[thing, string](watchcache.Options[thing]{Window: m.window, Values: words, History: &h})
		e.AddIndex("words")
		for step := range 3000 {
			m.step(e, clock, random)
			m.check(g, e, random)
			if step%100 == 0 {
				g.Expect(e.Check()).To(Succeed())
			}
		}
	}
}

// step does one random thing to an engine and to the model.
func (m *model) step(e *engine, clock *clocktesting.FakePassiveClock, random *rand.Rand) {
	if random.IntN(3) == 0 {
		m.now = m.now.Add(time.Duration(random.Int64N(int64(5 * time.Second))))
	} else if random.IntN(200) == 0 {
		m.now = m.now.Add(time.Duration(random.Int64N(int64(2 * time.Minute))))
	}
	clock.SetTime(m.now)
	write := func(revision uint64) change {
		key := fmt.Sprint("k", random.IntN(50))
		if random.IntN(4) == 0 {
			return remove(key, revision)
		}
		return put(key, revision, strings.Repeat("v", random.IntN(9))+fmt.Sprint(" w", random.IntN(5), " w", random.IntN(5)))
	}
	switch choice := random.IntN(500); {
	case choice == 0: // a relist, maybe of a source that was restored
		items := []item{}
		for key, i := range m.state {
			if random.IntN(4) > 0 {
				i.Key = key
				items = append(items, i)
			}
		}
		revision := m.revision + 5 - min(m.revision+5, random.Uint64N(20))
		m.replace(items, revision)
		e.Replace(items, revision)
	case choice < 50:
		revision := m.revision + 3 - min(m.revision+3, random.Uint64N(6))
		if revision > m.revision {
			m.written(revision)
			m.expire()
		}
		e.Bookmark(revision)
	case choice < 100: // a transaction
		changes := make([]change, 1+random.IntN(5))
		for i := range changes {
			changes[i] = write(m.revision + 1)
		}
		for i := range changes {
			changes[i].Item.Revision = changes[0].Item.Revision
			m.apply(changes[i])
		}
		e.Apply(changes...)
	case choice < 120: // behind a bookmark
		c := write(m.revision)
		m.apply(c)
		e.Apply(c)
	default:
		c := write(m.revision + 1 + random.Uint64N(2))
		c.Silent = m.silent && random.IntN(5) == 0
		m.apply(c)
		e.Apply(c)
	}
}
