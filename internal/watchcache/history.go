// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"time"

	"k8s.io/utils/clock"
)

// History says how long events are kept with their values, for readers that resume at a revision,
// or want the state of one.
//
// An event is kept until it is older than MinAge, and the newest Options.Window ones however old
// they are. MaxEvents and MaxBytes come before both; only the newest event is kept in any case.
// Events go with the next write or bookmark.
type History[V any] struct {
	// MinAge is the age up to which events are kept. With none, only their number
	// counts.
	MinAge time.Duration
	// MaxEvents bounds the number of events; zero means DefaultMaxEvents.
	MaxEvents int
	// MaxBytes bounds what the events hold in addition to the state: the values that have been
	// replaced or deleted. Zero is no bound.
	MaxBytes int
	// Budget bounds the same bytes together with the histories of other engines; nil is no bound.
	Budget *Budget
	// Size returns the bytes of a value, always the same for the same one. It is needed
	// for MaxBytes and Budget.
	Size func(value V) int
	// Clock tells the age of events; nil is the real one.
	Clock clock.PassiveClock
}

// DefaultMaxEvents is more than a kind sees in some minutes at a thousand writes a
// second, and takes tens of megabytes without the values.
const DefaultMaxEvents = 100 * 1024

// complete returns h with what was left out.
func (h History[V]) complete() History[V] {
	if (h.MaxBytes > 0 || h.Budget != nil) && h.Size == nil {
		panic("watchcache: History.MaxBytes or Budget is set without History.Size: set Size too, or none for no bound in bytes")
	}
	if h.MaxEvents <= 0 {
		h.MaxEvents = DefaultMaxEvents
	}
	if h.Clock == nil {
		h.Clock = clock.RealClock{}
	}
	return h
}

func (h *History[V]) limits(window int) limits {
	return limits{floor: window, ceiling: h.MaxEvents, minAge: h.MinAge, maxBytes: h.MaxBytes, budget: h.Budget, values: true}
}

// size returns what measures values, nil if nothing bounds them.
func (h *History[V]) size() func(V) int {
	if h.MaxBytes == 0 && h.Budget == nil {
		return nil
	}
	return h.Size
}

// Forget drops the history of an engine that is not written any more, and gives its part of the Budget back. Expiring cursors
// are expired then.
func (e *Engine[V, A]) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.cursors {
		e.lagLocked(c)
	}
	e.window.restart(e.revision)
	e.forgetLocked()
	e.changeLocked()
	e.changed.Notify()
}

// now returns the engine's time, which may stand still.
func (e *Engine[V, A]) now() time.Duration {
	if e.clock == nil {
		return 0
	}
	return e.clock()
}

// Oldest returns the revision that the history reaches back to: all events after it
// are there. Without a History it is the revision of now.
func (e *Engine[V, A]) Oldest() uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.oldestLocked()
}

func (e *Engine[V, A]) oldestLocked() uint64 {
	if !e.window.values {
		return e.revision
	}
	return e.window.oldest
}

// Position returns the position of the first event after revision, which is that of
// the next event if there is none yet. It is not ok if the history does not reach back
// to revision. For a revision that is not reached yet, the events up to it are still
// to come at the position and behind it.
//
// An event counts for the revision of the engine after it. That is the object's revision, or a
// higher one if a writer is behind its own bookmarks.
func (e *Engine[V, A]) Position(revision uint64) (position uint64, ok bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if revision < e.oldestLocked() {
		return 0, false
	}
	return e.window.after(revision), true
}

// Holds reports whether a cursor of ExpiringCursor could go on at position.
func (e *Engine[V, A]) Holds(position uint64) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.window.holds(position)
}
