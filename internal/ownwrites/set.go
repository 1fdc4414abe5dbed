// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"iter"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Set is the entries of an [Overlay] at one moment. It never changes.
type Set[V any] struct {
	entries entries[V]
	options *Options[V]
	open    int      // how many entries are
	floor   *floor   // that reads of all keys must have reached, nil for none
	doubts  []*doubt // the older ones first
	number  uint64   // of the newest entry that there has been
	bytes   int
}

// Bytes returns the memory of the entries.
func (s *Set[V]) Bytes() int { return s.bytes }

// Has reports whether there is an entry for a key, or anything that holds for all keys.
func (s *Set[V]) Has(key string) bool {
	return s.entries.get(key) != nil || s.floor != nil || len(s.doubts) > 0
}

// Find returns the object under a key, of the state or of an entry that the state has not passed. If there is one
// that the cache cannot hold, lost says why, and Find returns none.
func (s *Set[V]) Find(state *watchcache.Snapshot[V], key string) (item watchcache.Item[V], there bool, lost error) {
	e := s.entries.get(key)
	if e == nil {
		item, there = state.Get(key)
		return item, there, nil
	}
	item, now := e.in(state, s.options)
	switch {
	case e.passed(now):
	case e.Outcome == Shown:
		return e.item(), true, nil
	case e.hides(now):
		return watchcache.Item[V]{}, false, e.Lost
	}
	return item, now.there, nil
}

func (e *Entry[V]) item() watchcache.Item[V] {
	return watchcache.Item[V]{Key: e.Key, Revision: e.Revision, Value: e.Value}
}

// Over is what is to change in what a state shows.
type Over[V any] struct {
	// Item is an object to show if Shown is true. Otherwise it has the key of one to hide.
	Item  watchcache.Item[V]
	Shown bool
	// Lost says that there is an object which the cache cannot hold, and why. Item is what reads have shown before
	// it, of the state or of an entry.
	Lost error
	// Dropped says that there was no room for Item, which has its key and its revision alone.
	Dropped bool
}

// Over walks what changes what a state shows, in the order of the keys, with prefix and not before from.
func (s *Set[V]) Over(state *watchcache.Snapshot[V], prefix, from string) iter.Seq[Over[V]] {
	return func(yield func(Over[V]) bool) {
		for e := range s.entries.with(prefix, from) {
			if over, applies := s.effect(state, e); applies && !yield(over) {
				return
			}
		}
	}
}

// OverKey is Over for one key.
func (s *Set[V]) OverKey(state *watchcache.Snapshot[V], key string) (over Over[V], applies bool) {
	e := s.entries.get(key)
	if e == nil {
		return over, false
	}
	return s.effect(state, e)
}

// effect returns what an entry changes in what a state shows, if it does.
func (s *Set[V]) effect(state *watchcache.Snapshot[V], e *Entry[V]) (over Over[V], applies bool) {
	item, now := e.in(state, s.options)
	switch {
	case e.passed(now):
		return over, false
	case e.Outcome == Shown:
		return Over[V]{Item: e.item(), Shown: true}, true
	case !e.hides(now):
		return over, false
	case e.Lost != nil && e.was != nil && (!now.there || e.was.item.Revision > now.revision):
		return Over[V]{Item: e.was.item, Lost: e.Lost, Dropped: e.was.dropped}, true
	}
	return Over[V]{Item: item, Lost: e.Lost}, now.there
}

// Count returns the number of objects that are shown with prefix, and not before from.
func (s *Set[V]) Count(state *watchcache.Snapshot[V], prefix, from string) int {
	count := state.Count(prefix, from)
	for over := range s.Over(state, prefix, from) {
		_, there := state.Get(over.Item.Key)
		switch {
		case over.Shown && !there:
			count++
		case !over.Shown && there:
			count--
		}
	}
	return count
}

// applies reports whether s changes anything that a list of the keys with prefix shows of a state.
func (s *Set[V]) applies(state *watchcache.Snapshot[V], prefix string) bool {
	for range s.Over(state, prefix, "") {
		return true
	}
	return false
}

// waiting returns an entry of a read of key, or of keys with prefix if key is empty, of which the
// content is not known and that the state has not passed.
func (s *Set[V]) waiting(state *watchcache.Snapshot[V], prefix, key string) *Entry[V] {
	if s == nil {
		return nil
	}
	if key == "" {
		for e := range s.waitingWith(state, prefix) {
			return e
		}
		return nil
	}
	if e := s.entries.get(key); e != nil && s.waits(state, e) {
		return e
	}
	return nil
}

func (s *Set[V]) waits(state *watchcache.Snapshot[V], e *Entry[V]) bool {
	if !e.open() {
		return false // without a look at the state, as for most entries
	}
	_, now := e.in(state, s.options)
	return e.waits(now)
}

// waitingWith walks the entries with prefix of which the content is not known and that the state has
// not passed.
func (s *Set[V]) waitingWith(state *watchcache.Snapshot[V], prefix string) iter.Seq[*Entry[V]] {
	return func(yield func(*Entry[V]) bool) {
		if s == nil || s.open == 0 {
			return
		}
		for e := range s.entries.with(prefix, "") {
			if s.waits(state, e) && !yield(e) {
				return
			}
		}
	}
}

// unknown is waitingWith without those entries for whose objects there was no room.
func (s *Set[V]) unknown(state *watchcache.Snapshot[V], prefix string) iter.Seq[*Entry[V]] {
	return func(yield func(*Entry[V]) bool) {
		for e := range s.waitingWith(state, prefix) {
			if !e.full && !yield(e) {
				return
			}
		}
	}
}

// many reports whether the objects with prefix are to be listed.
func (s *Set[V]) many(state *watchcache.Snapshot[V], prefix string) bool {
	count := 0
	for range s.unknown(state, prefix) {
		if count++; count > askEach {
			return true
		}
	}
	return false
}
