// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/stats"
)

// counts are what an informer counts in passing. Only the goroutine that watches counts events.
type counts struct {
	events struct{ Added, Updated, Deleted, Bookmarks atomic.Uint64 }
	lists  atomic.Uint64
	begun  atomic.Int64 // when the informer was started, in nanoseconds since 1970; zero is never
	synced atomic.Int64 // when the first list was complete

	retired struct { // of handlers that were removed; guarded by Informer.mu
		called, lagged uint64
		calls          stats.Durations
	}
}

// listed counts a list that is in the engine.
func (c *counts) listed(now time.Time) {
	c.lists.Add(1)
	c.synced.CompareAndSwap(0, now.UnixNano())
}

// retire keeps what a handler has counted that is removed: counters never go back. The caller holds
// Informer.mu.
func (c *counts) retire(r *registration) {
	c.retired.called += r.calls.begun.Load()
	c.retired.calls.Add(r.calls.durations.Read())
	c.retired.lagged += r.cursor.Lagged()
}

// One of measuredCalls calls of a handler is measured, the first among them: a controller's handler
// takes no longer than reading the clock twice.
const measuredCalls = 8

// calls counts the calls of an event handler. It fills a line of the processor's cache, so handlers do not
// disturb each other.
type calls struct {
	begun     atomic.Uint64
	durations stats.Histogram
	uncounted bool // for benchmarks
	crashed   bool // the handler panicked at the event before; of registration.run
	_         [40]byte
}

// begin counts a call. The result is for end.
func (c *calls) begin() time.Duration {
	if c.uncounted || c.begun.Add(1)%measuredCalls != 1 {
		return stats.Unmeasured
	}
	return stats.Now()
}

// end measures a call that has returned, one in so many.
func (c *calls) end(begin time.Duration) { c.durations.Since(begin) }

// Stats are figures of an informer. Counters begin with the informer and never go back.
type Stats struct {
	// Events are what watches have sent; the objects of lists are not among them.
	Events Events
	// Lists is the number of lists that were complete.
	Lists uint64
	// Begun is when the informer was started, or woke up before its first list; Synced when its
	// first list was complete, and Told when the API server last told it anything. Each is zero if
	// that was not yet.
	Begun, Synced, Told time.Time
	// Lost is the number of objects that are missing because their transform failed, and Unindexed
	// the number of objects for which the function of an index failed.
	Lost, Unindexed int
	// Handlers are the event handlers of now. Called is how many calls all handlers have got,
	// removed ones too, Calls the durations of one in eight, and Lagged how often a handler fell out
	// of the window.
	Handlers []HandlerStats
	Called   uint64
	Calls    stats.Durations
	Lagged   uint64
}

// Events is a number of events by their types, as the API server calls them.
type Events struct{ Added, Updated, Deleted, Bookmarks uint64 }

// Memory is about how many bytes an informer takes for the moment, beside its state.
type Memory struct {
	// Window is for the Events that some handler has still to get.
	Window, Events int
	// Replay is for the objects that handlers share while they replay a whole state.
	Replay int
}

// HandlerStats are figures of an event handler.
type HandlerStats struct {
	// Handler is the Go type of the handler.
	Handler string
	// Synced reports that the handler has returned from the initial state.
	Synced bool
	// Behind is how many events were written that the handler has not returned from, up to 15 too
	// many, and Since how long ago the oldest of them was written. For a handler that is told of a
	// whole state, that state stands for so many events.
	Behind uint64
	Since  time.Duration
	// Lagged is how often the handler fell out of the window.
	Lagged uint64
	// Called is the number of calls, and Calls has the durations of one in eight, the first among them.
	Called uint64
	Calls  stats.Durations
}

// Stats returns the figures of now. It looks at each handler.
func (i *Informer) Stats() Stats {
	c := i.counts
	lost, _ := i.Lost()
	unindexed, _ := i.Unindexed()
	s := Stats{
		Events: i.Events(),
		Lists:  c.lists.Load(), Begun: at(c.begun.Load()), Synced: at(c.synced.Load()), Told: i.Told(),
		Lost: lost, Unindexed: unindexed,
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	s.Called, s.Calls, s.Lagged = c.retired.called, c.retired.calls, c.retired.lagged
	for _, r := range slices.SortedFunc(maps.Keys(i.handlers), func(a, b *registration) int { return strings.Compare(a.name(), b.name()) }) {
		h := r.stats()
		s.Handlers = append(s.Handlers, h)
		s.Called += h.Called
		s.Calls.Add(h.Calls)
		s.Lagged += h.Lagged
	}
	return s
}

// Events returns what watches have sent so far.
func (i *Informer) Events() Events {
	e := &i.counts.events
	return Events{Added: e.Added.Load(), Updated: e.Updated.Load(), Deleted: e.Deleted.Load(), Bookmarks: e.Bookmarks.Load()}
}

// at returns a time in nanoseconds since 1970; zero is the zero time.
func at(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// name returns the Go type of the handler.
func (r *registration) name() string { return fmt.Sprintf("%T", r.handler) }

func (r *registration) stats() HandlerStats {
	h := HandlerStats{
		Handler: r.name(), Synced: r.HasSynced(), Lagged: r.cursor.Lagged(),
		Called: r.calls.begun.Load(), Calls: r.calls.durations.Read(),
	}
	h.Behind, h.Since = r.cursor.Lag()
	return h
}

// measured is how many events of the window are measured to estimate the size of all.
const measured = 32

// Memory returns what the informer takes now. It looks at some of the events that wait.
func (i *Informer) Memory() Memory {
	held := i.engine.Held(measured)
	m := Memory{Events: held.Events, Window: held.Ring, Replay: i.replay.size()}
	bytes := 0
	for n := range held.Some {
		e := &held.Some[n]
		if !e.Previous.Value.IsZero() {
			bytes += e.Previous.Value.Bytes()
		}
		if e.Attached != nil && e.Attached.given != nil {
			bytes += object.MemoryOf(e.Attached.given)
		}
	}
	m.Window += bytes * held.Events / max(1, len(held.Some))
	return m
}

// size returns how many bytes the objects take that replayers share.
func (s *sharedReplay) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}
