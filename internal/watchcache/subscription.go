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
type Subscription[V, A any] struct {
	engine *Engine[V, A]

	// Guarded by the engine's lock.
	position uint64       // of the first event that was not given to the subscriber
	base     *Snapshot[V] // what a lagging subscriber has seen; nil if it is active
	begun    bool         // it was given something
	lagged   uint64
	closed   chan struct{}

	events []Event[V, A] // of the newest batch; belongs to the goroutine that calls Next
}

// Subscribe returns a subscription that starts from the empty state, or, if from
// is not nil, from a snapshot of this engine that the subscriber has seen.
func (e *Engine[V, A]) Subscribe(from *Snapshot[V]) *Subscription[V, A] {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &Subscription[V, A]{engine: e, base: from, begun: from != nil, closed: make(chan struct{})}
	if from == nil {
		s.base = &Snapshot[V]{items: newTree[V]()}
	}
	e.subs[s] = struct{}{}
	return s
}

// Close ends the subscription: Next returns ErrClosed. It may be called more than
// once and by any goroutine.
func (s *Subscription[V, A]) Close() {
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
func (s *Subscription[V, A]) Lagged() uint64 {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return s.lagged
}

// Batch is what has changed since the batch before. Either Diff is set or Events is
// not empty.
type Batch[V, A any] struct {
	// Events are the changes, each in its order. They are the subscriber's until it
	// calls Next again.
	Events []Event[V, A]
	// Diff leads to the state of now in place of events that are not there any more.
	Diff *Diff[V, A]
}

// Next waits for a change and returns all there is, within a bound. To call it is to
// say that the batch before was consumed. The error is ErrClosed, or the cause for
// which ctx ended.
func (s *Subscription[V, A]) Next(ctx context.Context) (Batch[V, A], error) {
	clear(s.events) // it must not hold the batch before while it waits
	for {
		batch, changed, ok := s.poll()
		if ok {
			return batch, nil
		}
		select {
		case <-changed:
		case <-s.closed:
			return Batch[V, A]{}, ErrClosed
		case <-ctx.Done():
			return Batch[V, A]{}, context.Cause(ctx)
		}
	}
}

// State returns the state that the subscriber has seen when it has consumed everything
// that it was given.
func (s *Subscription[V, A]) State() *Snapshot[V] {
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
func (s *Subscription[V, A]) poll() (_ Batch[V, A], changed <-chan struct{}, ok bool) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, open := e.subs[s]; !open {
		return Batch[V, A]{}, nil, false
	}
	if s.base != nil {
		to := e.snapshotLocked()
		diff := &Diff[V, A]{From: s.base, To: to, initial: !s.begun}
		s.base, s.begun, s.position = nil, true, to.position
		return Batch[V, A]{Diff: diff}, nil, true
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
		return Batch[V, A]{}, e.changedLocked(), false
	}
	return Batch[V, A]{Events: s.events}, nil, true
}

// outrunLocked makes those subscribers lagging that were not given all events before
// first yet.
func (e *Engine[V, A]) outrunLocked(first uint64) {
	for s := range e.subs {
		if s.base == nil && s.position < first {
			e.lagLocked(s)
			s.lagged++
		}
	}
}

// lagLocked makes an active subscriber lagging: it keeps the state after the events
// that it was given.
func (e *Engine[V, A]) lagLocked(s *Subscription[V, A]) {
	if s.base != nil {
		return
	}
	s.base = e.seenLocked(s)
	e.window.read(s.position, e.window.next)
}

// seenLocked returns the state after the events that an active subscriber was given,
// without indexes. That is the state of now without the events that it was not given, all
// of which are in the window.
func (e *Engine[V, A]) seenLocked(s *Subscription[V, A]) *Snapshot[V] {
	seen := &Snapshot[V]{items: e.items.Copy(), position: s.position}
	for p := e.window.next; p > s.position; p-- {
		e.window.at(p - 1).event.inverse().applyTo(seen)
	}
	return seen
}
