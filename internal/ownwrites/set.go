// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"iter"
	"strings"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Set is the entries of an [Overlay] at one moment. It never changes.
type Set[V any] struct {
	entries *btree.BTreeG[*Entry[V]] // in the order of their keys
	uid     func(V) types.UID
	unknown int    // how many entries are open
	floor   uint64 // what reads of all keys must have reached
	bytes   int
}

// Bytes returns the memory of the entries.
func (s *Set[V]) Bytes() int { return s.bytes }

// Has reports whether there is an entry for a key, or anything that holds for all keys.
func (s *Set[V]) Has(key string) bool {
	_, ok := s.entries.Get(&Entry[V]{Key: key})
	return ok || s.floor > 0
}

func (s *Set[V]) found(state *watchcache.Snapshot[V], key string) (watchcache.Item[V], found) {
	item, there := state.Get(key)
	if !there {
		return item, found{}
	}
	return item, found{there: true, uid: s.uid(item.Value), revision: item.Revision}
}

// Get returns the object under a key, of the state or of an entry that the state has not passed.
func (s *Set[V]) Get(state *watchcache.Snapshot[V], key string) (watchcache.Item[V], bool) {
	item, now := s.found(state, key)
	e, ok := s.entries.Get(&Entry[V]{Key: key})
	switch {
	case !ok || e.passed(state.Revision(), now):
		return item, now.there
	case e.Outcome == Shown:
		return e.item(), true
	case e.hides(state.Revision(), now):
		return watchcache.Item[V]{}, false
	}
	return item, now.there
}

func (e *Entry[V]) item() watchcache.Item[V] {
	return watchcache.Item[V]{Key: e.Key, Revision: e.Revision, Value: e.Value}
}

// Over walks the entries that change what a state shows, in the order of their keys, with prefix
// and not before from. It is true for an object to show, and false for one of the state to hide, of
// which there is only the key.
func (s *Set[V]) Over(state *watchcache.Snapshot[V], prefix, from string) iter.Seq2[watchcache.Item[V], bool] {
	return func(yield func(watchcache.Item[V], bool) bool) {
		s.entries.Ascend(&Entry[V]{Key: max(prefix, from)}, func(e *Entry[V]) bool {
			if !strings.HasPrefix(e.Key, prefix) {
				return false
			}
			_, now := s.found(state, e.Key)
			switch {
			case e.passed(state.Revision(), now):
			case e.Outcome == Shown:
				return yield(e.item(), true)
			case now.there && e.hides(state.Revision(), now):
				return yield(watchcache.Item[V]{Key: e.Key}, false)
			}
			return true
		})
	}
}

// Count returns the number of objects that are shown with prefix, and not before from.
func (s *Set[V]) Count(state *watchcache.Snapshot[V], prefix, from string) int {
	count := state.Count(prefix, from)
	for item, shown := range s.Over(state, prefix, from) {
		_, there := state.Get(item.Key)
		switch {
		case shown && !there:
			count++
		case !shown:
			count--
		}
	}
	return count
}

// applies reports whether s changes anything of a state.
func (s *Set[V]) applies(state *watchcache.Snapshot[V]) bool {
	for range s.Over(state, "", "") {
		return true
	}
	return false
}

// waiting returns an entry of a read of key, or of keys with prefix if key is empty, of which the
// content is not known and that the state has not passed.
func (s *Set[V]) waiting(state *watchcache.Snapshot[V], prefix, key string) (open *Entry[V]) {
	if s.unknown == 0 {
		return nil
	}
	s.entries.Ascend(&Entry[V]{Key: max(prefix, key)}, func(e *Entry[V]) bool {
		if !strings.HasPrefix(e.Key, prefix) || key != "" && e.Key != key {
			return false
		}
		if e.open() {
			if _, now := s.found(state, e.Key); !e.passed(state.Revision(), now) {
				open = e
			}
		}
		return open == nil
	})
	return open
}
