// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"context"
	"errors"
)

// ErrClosed is returned by Next of a subscription that was closed.
var ErrClosed = errors.New("watchcache: the subscription is closed")

// maxBatch bounds how many events a subscriber is given at once: what is attached to them
// can be dropped bit by bit, and the room for a batch, which each subscriber keeps, is small.
const maxBatch = 16

// Subscription follows the state of an engine.
type Subscription[V any] struct {
	engine *Engine[V]

	// Guarded by the engine's lock.
	position uint64       // of the first event that was not given to the subscriber
	base     *Snapshot[V] // what a lagging subscriber has seen; nil if it is active
	begun    bool         // it was given something
	lagged   uint64
	closed   chan struct{}

	events []Event[V] // of the newest batch; belongs to the goroutine that calls Next
}

// Subscribe returns a subscription that starts from the empty state, or, if from
// is not nil, from a snapshot of this engine that the subscriber has seen.
func (e *Engine[V]) Subscribe(from *Snapshot[V]) *Subscription[V] {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &Subscription[V]{engine: e, base: from, begun: from != nil, closed: make(chan struct{})}
	if from == nil {
		s.base = &Snapshot[V]{items: newTree[V]()}
	}
	e.subs[s] = struct{}{}
	return s
}

// Close ends the subscription: Next returns ErrClosed. It may be called more than
// once and by any goroutine.
func (s *Subscription[V]) Close() {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.subs[s]; !ok {
		return
	}
	if s.base == nil {
		e.window.read(s.position, e.window.next)
	}
	delete(e.subs, s)
	s.base = nil
	close(s.closed)
}

// Lagged returns how often the subscriber fell out of the window.
func (s *Subscription[V]) Lagged() uint64 {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return s.lagged
}

// Batch is what has changed since the batch before. Either Diff is set or Events is
// not empty.
type Batch[V any] struct {
	// Events are the changes, each in its order. They are the subscriber's until it
	// calls Next again.
	Events []Event[V]
	// Diff leads to the state of now in place of events that are not there any more.
	Diff *Diff[V]
}

// Next waits for a change and returns all there is, within a bound. To call it is to
// say that the batch before was consumed. The error is ErrClosed, or the cause for
// which ctx ended.
func (s *Subscription[V]) Next(ctx context.Context) (Batch[V], error) {
	clear(s.events) // it must not hold the batch before while it waits
	for {
		batch, changed, ok := s.poll()
		if ok {
			return batch, nil
		}
		select {
		case <-changed:
		case <-s.closed:
			return Batch[V]{}, ErrClosed
		case <-ctx.Done():
			return Batch[V]{}, context.Cause(ctx)
		}
	}
}

// State returns the state that the subscriber has seen when it has consumed everything
// that it was given.
func (s *Subscription[V]) State() *Snapshot[V] {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case s.base != nil:
		return s.base
	case s.position == e.window.next:
		return e.snapshotLocked()
	}
	return e.seenLocked(s)
}

// poll returns the next batch, or else a channel that is closed at the next change.
func (s *Subscription[V]) poll() (_ Batch[V], changed <-chan struct{}, ok bool) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, open := e.subs[s]; !open {
		return Batch[V]{}, nil, false
	}
	if s.base != nil {
		to := e.snapshotLocked()
		diff := &Diff[V]{From: s.base, To: to, initial: !s.begun}
		s.base, s.begun, s.position = nil, true, to.position
		return Batch[V]{Diff: diff}, nil, true
	}
	s.events = s.events[:0]
	from := s.position
	for ; s.position < e.window.next && len(s.events) < maxBatch; s.position++ {
		if next := e.window.at(s.position); !next.silent {
			s.events = append(s.events, next.event)
		}
	}
	e.window.read(from, s.position)
	if len(s.events) == 0 {
		return Batch[V]{}, e.changedLocked(), false
	}
	return Batch[V]{Events: s.events}, nil, true
}

// outrunLocked makes those subscribers lagging that were not given all events before
// first yet.
func (e *Engine[V]) outrunLocked(first uint64) {
	for s := range e.subs {
		if s.base == nil && s.position < first {
			e.lagLocked(s)
			s.lagged++
		}
	}
}

// lagLocked makes an active subscriber lagging: it keeps the state after the events
// that it was given.
func (e *Engine[V]) lagLocked(s *Subscription[V]) {
	if s.base != nil {
		return
	}
	s.base = e.seenLocked(s)
	e.window.read(s.position, e.window.next)
}

// seenLocked returns the state after the events that an active subscriber was given,
// without indexes. That is the state of now without the events that it was not given, all
// of which are in the window.
func (e *Engine[V]) seenLocked(s *Subscription[V]) *Snapshot[V] {
	seen := &Snapshot[V]{items: e.items.Copy(), position: s.position}
	for p := e.window.next; p > s.position; p-- {
		seen.apply(e.window.at(p - 1).event.inverse())
	}
	return seen
}
