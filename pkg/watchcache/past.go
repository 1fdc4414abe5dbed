// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import "slices"

// maxRecent is the number of older states that are remembered: one for each list that is
// read page by page at a time, while what it shares with the state of now costs nothing.
const maxRecent = 8

// At returns the state at a revision, with the indexes that there are now. It is made
// by undoing what has happened since, in which nobody waits; a few that were made are
// remembered as long as the history reaches back to them. It is not ok if that does not
// reach back to revision, and if the state is not that far yet. Without a History there is
// only the state of now.
func (e *Engine[V]) At(revision uint64) (*Snapshot[V], bool) {
	s, since, ok := e.beforeUndo(revision)
	if len(since) == 0 {
		return s, ok
	}
	for _, event := range slices.Backward(since) {
		s.undo(&event)
		e.reindex(s.indexes, event.inverse())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rememberLocked(s)
	return s, true
}

// beforeUndo returns a snapshot for revision, from which the events since then are
// still to be undone, if there are any: then it is the caller's own.
func (e *Engine[V]) beforeUndo(revision uint64) (s *Snapshot[V], since []Event[V], ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case revision > e.revision || revision < e.oldestLocked():
		return nil, nil, false
	case revision == e.revision:
		return e.snapshotLocked(), nil, true
	}
	if s = e.recallLocked(revision); s != nil {
		return s, nil, true
	}
	s = e.copyLocked()
	s.revision, s.position = revision, e.window.after(revision)
	since = make([]Event[V], e.window.next-s.position)
	for i := range since {
		since[i] = e.window.at(s.position + uint64(i)).event
	}
	if len(since) == 0 {
		e.rememberLocked(s)
	}
	return s, since, true
}

// recallLocked returns the remembered state of a revision; nil if there is none that
// has all indexes.
func (e *Engine[V]) recallLocked(revision uint64) *Snapshot[V] {
	i := slices.IndexFunc(e.recent, func(s *Snapshot[V]) bool { return s.revision == revision })
	if i < 0 {
		return nil
	}
	s := e.recent[i]
	for name := range e.indexes {
		if s.indexes[name] == nil {
			return nil
		}
	}
	e.recent = append(slices.Delete(e.recent, i, i+1), s)
	return s
}

// rememberLocked remembers a state, in place of an earlier one of its revision, or of
// the one that was asked for longest ago.
func (e *Engine[V]) rememberLocked(s *Snapshot[V]) {
	if s.position < e.window.first {
		return
	}
	e.recent = slices.DeleteFunc(e.recent, func(other *Snapshot[V]) bool { return other.revision == s.revision })
	if len(e.recent) == maxRecent {
		e.recent = slices.Delete(e.recent, 0, 1)
	}
	e.recent = append(e.recent, s)
}

// forgetLocked lets go of the states to which the window does not reach back.
func (e *Engine[V]) forgetLocked() {
	e.recent = slices.DeleteFunc(e.recent, func(s *Snapshot[V]) bool { return s.position < e.window.first })
}

// inverse returns the event that leads back to before e.
func (e *Event[V]) inverse() *Event[V] {
	switch e.Type {
	case Added:
		return &Event[V]{Type: Deleted, Item: Item[V]{Key: e.Item.Key}, Previous: e.Item}
	case Deleted:
		return &Event[V]{Type: Added, Item: e.Previous}
	default:
		return &Event[V]{Type: Updated, Item: e.Previous, Previous: e.Item}
	}
}
