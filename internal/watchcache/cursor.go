// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"context"
	"errors"
	"slices"
	"time"
)

var (
	// ErrClosed is returned by a cursor that was closed.
	ErrClosed = errors.New("watchcache: the cursor is closed")
	// ErrExpired is returned by a cursor of [Engine.ExpiringCursor] that cannot go on: the next
	// event has left the window, or the state was replaced. Begin again with a new cursor.
	ErrExpired = errors.New("watchcache: the next event of the cursor is not kept any more, or the state was replaced")
)

// overrun is what happens to a cursor whose next event is not in the window any more.
type overrun int

const (
	merging  overrun = iota // it is given the Diff from what it has seen to the state of now
	expiring                // it ends with ErrExpired
)

// maxBatch is how many events a merging cursor is given at once: what is attached to
// them can be dropped bit by bit, and the room for a batch, which each cursor keeps, is small.
const maxBatch = 16

// Cursor walks the events of an engine, each once and in their order. Its overrun policy says what
// happens when it is too slow:
//
//   - A merging cursor, of [Engine.MergingCursor], gets a Diff. The engine knows the cursor, and keeps the events
//     that the cursor has still to read, within the window, and beyond that the state that the
//     cursor has seen. So the cursor must be closed.
//   - An expiring cursor, of [Engine.ExpiringCursor], gets ErrExpired. The engine does not know it: it costs nothing
//     between two calls, needs no Close, and reads what a [History] keeps anyway.
//
// A cursor belongs to one goroutine. Only Close, Lagged and Lag may be called by others. The lock
// of the engine guards position, seen, begun, lagged and lag of a merging cursor, because
// writers look at them. The other fields, and all fields of an expiring cursor, belong to
// the goroutine of the cursor.
type Cursor[V, A any] struct {
	engine  *Engine[V, A]
	overrun overrun
	batch   int           // the most events that it is given at once
	closed  chan struct{} // closed by Close; nil if it expires

	position uint64       // of the first event that was not given
	seen     *Snapshot[V] // the state that a lagging cursor has seen; nil if it is active
	begun    bool         // something was given
	lagged   uint64
	lag      lag

	revision uint64        // of the newest batch
	events   []Event[V, A] // of the newest batch
}

// MergingCursor returns a cursor that begins behind a snapshot of this engine, or, if from is
// nil, with the empty state. Whenever it is overrun, and after a Replace, its next batch is a
// [Diff] from the state that it has seen to the state of now. Its first batch is one, too.
func (e *Engine[V, A]) MergingCursor(from *Snapshot[V]) *Cursor[V, A] {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &Cursor[V, A]{
		engine: e, overrun: merging, batch: maxBatch, closed: make(chan struct{}),
		seen: from, begun: from != nil,
	}
	if from == nil {
		c.seen = &Snapshot[V]{items: newTree[V](), position: e.window.next}
	}
	c.position = c.seen.position
	c.lag = lag{consumed: c.position, missed: e.now()}
	if e.cursors == nil {
		e.cursors = map[*Cursor[V, A]]struct{}{}
	}
	e.cursors[c] = struct{}{}
	return c
}

// ExpiringCursor returns a cursor that begins with the event at position, see [Engine.Position]
// and [Snapshot.Position], and is given at most batch events at once. When that event is not
// in the window any more, when a Replace came after it, and without a [History], Next and
// Poll return ErrExpired.
func (e *Engine[V, A]) ExpiringCursor(position uint64, batch int) *Cursor[V, A] {
	return &Cursor[V, A]{engine: e, overrun: expiring, batch: batch, position: position}
}

// Close ends a merging cursor: Next and Poll return ErrClosed. An expiring cursor
// needs no end. Close may be called more than once and by any goroutine.
func (c *Cursor[V, A]) Close() {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, open := e.cursors[c]; !open {
		return
	}
	if c.seen == nil {
		e.window.read(c.position, e.window.next)
	}
	delete(e.cursors, c)
	c.seen = nil
	close(c.closed)
}

// Lagged returns how often a merging cursor was outside the window.
func (c *Cursor[V, A]) Lagged() uint64 {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	return c.lagged
}

// Batch is what a cursor is given at once.
type Batch[V, A any] struct {
	// Events are the changes, each in its order. The caller may change the slice, which is
	// used again by the next call of Next or Poll.
	Events []Event[V, A]
	// Diff leads to the state of now, in place of events. Only a merging cursor is
	// given one.
	Diff *Diff[V, A]
	// Position is the position of the first event behind the batch.
	Position uint64
	// Revision is the one up to which the cursor has been given everything, with this batch.
	Revision uint64
}

// Next waits until there is something to give, and returns it. Next returns events or a Diff. An
// expiring cursor is also given a higher Revision without an event. To call Next says that the
// batch before was consumed. The error is ErrClosed, ErrExpired, or the cause for which ctx ended.
func (c *Cursor[V, A]) Next(ctx context.Context) (Batch[V, A], error) {
	clear(c.events) // the cursor must not hold the batch before while it waits
	for {
		batch, changed, err := c.readOrWait()
		if changed == nil {
			return batch, err
		}
		select {
		case <-changed:
		case <-c.closed:
			return Batch[V, A]{}, ErrClosed
		case <-ctx.Done():
			return Batch[V, A]{}, context.Cause(ctx)
		}
	}
}

// Poll returns what there is to give now: an empty batch if that is nothing. The error is
// ErrClosed or ErrExpired.
func (c *Cursor[V, A]) Poll() (Batch[V, A], error) {
	clear(c.events)
	if c.overrun == expiring { // many of them read at once
		c.engine.mu.RLock()
		defer c.engine.mu.RUnlock()
	} else {
		c.engine.mu.Lock()
		defer c.engine.mu.Unlock()
	}
	batch, err := c.readLocked()
	c.revision = batch.Revision
	return batch, err
}

// readOrWait returns the next batch, or else a channel that is closed at the next change.
func (c *Cursor[V, A]) readOrWait() (_ Batch[V, A], changed <-chan struct{}, _ error) {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	batch, err := c.readLocked()
	if err != nil || batch.Diff != nil || len(batch.Events) > 0 || c.overrun == expiring && batch.Revision > c.revision {
		c.revision = batch.Revision
		return batch, nil, err
	}
	return Batch[V, A]{}, c.engine.changed.Wait(), nil
}

// readLocked returns what there is to give.
func (c *Cursor[V, A]) readLocked() (Batch[V, A], error) {
	w := c.engine.window
	switch {
	case c.overrun == expiring:
		if !w.holds(c.position) {
			return Batch[V, A]{}, ErrExpired
		}
	case c.isClosedLocked():
		return Batch[V, A]{}, ErrClosed
	case c.seen != nil:
		to := c.engine.snapshotLocked()
		diff := &Diff[V, A]{From: c.seen, To: to, initial: !c.begun}
		c.lag.give(c.position, c.lag.missed)
		c.seen, c.begun, c.position = nil, true, to.position
		return Batch[V, A]{Diff: diff, Position: to.position, Revision: to.revision}, nil
	}
	from, written := c.position, time.Duration(0)
	if from < w.next {
		written = w.at(from).written
	}
	c.events = slices.Grow(c.events[:0], int(min(w.next-from, uint64(c.batch))))
	for ; c.position < w.next && len(c.events) < c.batch; c.position++ {
		if next := w.at(c.position); !next.silent {
			c.events = append(c.events, next.event)
		}
	}
	if c.overrun == merging {
		c.lag.consume(c.position)
		if len(c.events) > 0 {
			c.lag.give(from, written)
		}
		w.read(from, c.position)
	}
	return Batch[V, A]{Events: c.events, Position: c.position, Revision: c.engine.reachedLocked(c.position)}, nil
}

func (c *Cursor[V, A]) isClosedLocked() bool {
	_, open := c.engine.cursors[c]
	return !open
}

// reachedLocked returns the revision up to which all events are before a position.
func (e *Engine[V, A]) reachedLocked(position uint64) uint64 {
	if position >= e.window.next {
		return e.revision
	}
	return max(e.window.at(position).revision, 1) - 1
}

// Seek makes an expiring cursor go on with the event at position. So it is given once
// more what it was given, but could not use yet.
func (c *Cursor[V, A]) Seek(position uint64) {
	if c.overrun != expiring {
		panic("watchcache: a merging cursor goes forward alone: what it was given may have left the window")
	}
	c.position = position
}

// State returns the state that a cursor has seen once it has consumed everything that it was
// given. It is nil if the cursor has expired, or was closed: the engine does not keep what it
// would be made of.
func (c *Cursor[V, A]) State() *Snapshot[V] {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case c.seen != nil:
		return c.seen
	case c.overrun == expiring && !e.window.holds(c.position), c.overrun == merging && c.isClosedLocked():
		return nil
	case c.position == e.window.next:
		return e.snapshotLocked()
	}
	return e.seenLocked(c)
}

// outrunLocked makes those cursors lagging that were not given all events before first yet.
func (e *Engine[V, A]) outrunLocked(first uint64) {
	for c := range e.cursors {
		if c.seen == nil && c.position < first {
			e.lagLocked(c)
			c.lagged++
		}
	}
}

// lagLocked makes an active cursor lagging: the engine keeps the state after the events that
// the cursor was given, and not the events that it has still to read.
func (e *Engine[V, A]) lagLocked(c *Cursor[V, A]) {
	if c.seen != nil {
		return
	}
	c.lag.missed = e.now()
	if c.position < e.window.next {
		c.lag.missed = e.window.at(c.position).written
	}
	c.seen = e.seenLocked(c)
	e.window.read(c.position, e.window.next)
}

// seenLocked returns the state after the events that an active cursor was given, without
// indexes. It is made of the state of now: the events that the cursor was not given, which
// are all in the window, are undone.
func (e *Engine[V, A]) seenLocked(c *Cursor[V, A]) *Snapshot[V] {
	seen := &Snapshot[V]{items: e.items.Copy(), position: c.position, restored: e.restored}
	for p := e.window.next; p > c.position; p-- {
		e.window.at(p - 1).event.inverse().applyTo(seen)
	}
	return seen
}
