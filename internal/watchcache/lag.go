// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"time"
	"unsafe"
)

// lag is what a merging cursor has not consumed. The lock of the engine guards it.
type lag struct {
	consumed uint64        // the position up to which everything is consumed
	busy     bool          // a batch was given, and is not consumed
	given    time.Duration // when the oldest event of that batch was written
	missed   time.Duration // when the oldest event was written for which a lagging cursor is given a Diff
}

// give notes that a batch is given, which begins with the event at a position.
func (l *lag) give(from uint64, written time.Duration) {
	l.consumed, l.busy, l.given = from, true, written
}

// consume notes that everything before a position is consumed.
func (l *lag) consume(before uint64) { l.consumed, l.busy = before, false }

// Lag returns how many events were written that a merging cursor has not consumed, and how
// long ago the oldest of them was written. A batch is consumed when the next one is asked for, so
// the number may be too high by as many events as a batch has. While a cursor is given a Diff, the
// number counts the events for which the Diff stands, not the objects in it.
func (c *Cursor[V, A]) Lag() (events uint64, since time.Duration) {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.isClosedLocked() {
		return 0, 0
	}
	events = e.window.next - c.lag.consumed
	oldest := time.Duration(0)
	switch {
	case c.lag.busy:
		oldest = c.lag.given
	case events == 0:
		return 0, 0
	case c.seen != nil:
		oldest = c.lag.missed
	default:
		oldest = e.window.at(c.position).written
	}
	return events, max(0, e.now()-oldest)
}

// Held is what the window of an engine holds.
type Held[V, A any] struct {
	// Events is the number of events, and Ring the bytes of the window without what they refer to.
	Events, Ring int
	// Some are events of the window, spread evenly.
	Some []Event[V, A]
}

// Held returns what the window holds now, with so many of its events at most.
func (e *Engine[V, A]) Held(some int) Held[V, A] {
	e.mu.RLock()
	defer e.mu.RUnlock()
	w := e.window
	held := Held[V, A]{Events: w.len(), Ring: len(w.slots) * int(unsafe.Sizeof(slot[V, A]{}))}
	for n := range min(some, held.Events) {
		held.Some = append(held.Some, w.at(w.first+uint64(n*held.Events/min(some, held.Events))).event)
	}
	return held
}
