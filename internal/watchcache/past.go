// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"maps"
	"slices"

	"github.com/tarn-dev/tarn/internal/postings"
)

// Older states are remembered: one for each list that is read page by page at a time, while
// what it shares with the state of now costs nothing.
const (
	// maxRecent is how many are, however far they are from one another.
	maxRecent = 8
	// maxNear is how many are if one was made of another by few events: lists at revisions
	// that their readers have just seen are of many.
	maxNear = 128
	// maxMoved bounds the events by which the states beyond maxRecent were made. An event takes
	// some nodes of trees, about 10 KB.
	maxMoved = 1024
)

// At returns the state at a revision, with the indexes that there are now. It is made from the
// nearest known state by undoing or repeating the events between the two, without the lock. A few
// such states are remembered as long as the history reaches back to them. It is not ok if that does
// not reach back to revision, and if the state is not that far yet. Without a History there is only
// the state of now.
func (e *Engine[V, A]) At(revision uint64) (*Snapshot[V], bool) {
	s, between, back, ok := e.beforeMove(revision)
	if len(between) == 0 {
		return s, ok
	}
	if back {
		slices.Reverse(between)
	}
	for i := range between {
		event := &between[i]
		if back {
			event = event.inverse()
		}
		event.applyTo(s)
		e.reindex(s.indexes, event)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rememberLocked(s)
	return s, true
}

// beforeMove returns a snapshot for revision, and the events that are still to be repeated
// on it, or undone if it is back, in their order. If there are any it is the caller's own.
func (e *Engine[V, A]) beforeMove(revision uint64) (s *Snapshot[V], between []Event[V, A], back, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case revision > e.revision || revision < e.oldestLocked():
		return nil, nil, false, false
	case revision == e.revision:
		return e.snapshotLocked(), nil, false, true
	}
	if s = e.recallLocked(revision); s != nil {
		return s, nil, false, true
	}
	position := e.window.after(revision)
	s = e.nearestLocked(position)
	first, end := s.position, position
	if back = first > end; back {
		first, end = end, first
	}
	s.revision, s.position, s.moved = revision, position, int(end-first)
	between = make([]Event[V, A], 0, s.moved)
	for p := first; p < end; p++ {
		between = append(between, e.window.at(p).event)
	}
	if len(between) == 0 {
		e.rememberLocked(s)
	}
	return s, between, back, true
}

// nearestLocked returns a copy of the known state that is the fewest events away from a
// position.
func (e *Engine[V, A]) nearestLocked(position uint64) *Snapshot[V] {
	distance := func(from uint64) uint64 { return max(from, position) - min(from, position) }
	var nearest *Snapshot[V]
	best := distance(e.window.next)
	for _, s := range e.recent {
		if d := distance(s.position); d < best && e.hasIndexesLocked(s) {
			nearest, best = s, d
		}
	}
	if nearest == nil {
		return e.copyLocked()
	}
	made := *nearest // a reader of it is not disturbed by copies of its trees
	made.items = nearest.items.Copy()
	made.indexes = maps.Clone(nearest.indexes)
	maps.DeleteFunc(made.indexes, func(name string, _ *postings.Postings) bool { return e.indexes[name] == nil })
	for name, pairs := range made.indexes {
		made.indexes[name] = pairs.Clone()
	}
	return &made
}

func (e *Engine[V, A]) hasIndexesLocked(s *Snapshot[V]) bool {
	for name := range e.indexes {
		if s.indexes[name] == nil {
			return false
		}
	}
	return true
}

// recallLocked returns the remembered state of a revision; nil if there is none that
// has all indexes.
func (e *Engine[V, A]) recallLocked(revision uint64) *Snapshot[V] {
	i := slices.IndexFunc(e.recent, func(s *Snapshot[V]) bool { return s.revision == revision })
	if i < 0 {
		return nil
	}
	s := e.recent[i]
	if !e.hasIndexesLocked(s) {
		return nil
	}
	e.recent = append(slices.Delete(e.recent, i, i+1), s)
	return s
}

// rememberLocked remembers a state, in place of an earlier one of its revision, and drops the
// states asked for longest ago if there are too many.
func (e *Engine[V, A]) rememberLocked(s *Snapshot[V]) {
	if s.position < e.window.first {
		return
	}
	e.recent = slices.DeleteFunc(e.recent, func(other *Snapshot[V]) bool { return other.revision == s.revision })
	e.recent = append(e.recent, s)
	moved := 0
	for _, other := range e.recent {
		moved += other.moved
	}
	for len(e.recent) > maxRecent && (len(e.recent) > maxNear || moved > maxMoved) {
		moved -= e.recent[0].moved
		e.recent = slices.Delete(e.recent, 0, 1)
	}
}

// forgetLocked lets go of the states to which the window does not reach back.
func (e *Engine[V, A]) forgetLocked() {
	e.recent = slices.DeleteFunc(e.recent, func(s *Snapshot[V]) bool { return s.position < e.window.first })
}

// inverse returns the event that leads back to before e.
func (e *Event[V, A]) inverse() *Event[V, A] {
	switch e.Type {
	case Added:
		return &Event[V, A]{Type: Deleted, Item: Item[V]{Key: e.Item.Key}, Previous: e.Item}
	case Deleted:
		return &Event[V, A]{Type: Added, Item: e.Previous}
	default:
		return &Event[V, A]{Type: Updated, Item: e.Previous, Previous: e.Item}
	}
}
