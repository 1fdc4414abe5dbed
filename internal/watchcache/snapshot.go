// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"iter"
	"maps"
	"sort"
	"strings"
	"unsafe"

	"github.com/tidwall/btree"

	"github.com/tarn-dev/tarn/internal/postings"
)

// Snapshot is the state of one moment. It never changes; it keeps what it holds
// from being collected.
type Snapshot[V any] struct {
	items    *btree.BTreeG[Item[V]]
	indexes  map[string]*postings.Postings
	revision uint64
	replaced int    // as in state
	restored int    // likewise
	position uint64 // in the sequence of events
	moved    int    // how many events away from another one it was made
}

// applyTo lets the event happen in the state of a snapshot that nobody else has yet. The
// indexes stay.
func (event *Event[V, A]) applyTo(s *Snapshot[V]) {
	if event.Type == Deleted {
		s.items.Delete(event.Item)
	} else {
		s.items.Set(event.Item)
	}
}

// Snapshot returns the state of now. It takes no lock if nothing has changed since the
// newest snapshot was taken; otherwise it makes a new one.
func (e *Engine[V, A]) Snapshot() *Snapshot[V] {
	if s := e.snapshot.Load(); s != nil {
		return s
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.snapshotLocked()
}

func (e *Engine[V, A]) snapshotLocked() *Snapshot[V] {
	s := e.snapshot.Load()
	if s == nil {
		s = e.copyLocked()
		e.snapshot.Store(s)
	}
	return s
}

// changeLocked says that the state changes: the newest snapshot is not of now any more. A
// writer calls it before it lets go of the lock, so no reader that has heard of the change is given
// the snapshot before it.
func (e *Engine[V, A]) changeLocked() {
	if e.snapshot.Load() != nil { // most writes find none, and a store is dear
		e.snapshot.Store(nil)
	}
}

// copyLocked returns a new snapshot of the state of now.
func (e *Engine[V, A]) copyLocked() *Snapshot[V] {
	s := &Snapshot[V]{
		items:    e.items.Copy(),
		indexes:  make(map[string]*postings.Postings, len(e.indexes)),
		revision: e.revision,
		replaced: e.replaced,
		restored: e.restored,
		position: e.window.next,
	}
	for name, pairs := range e.indexes {
		s.indexes[name] = pairs.Clone()
	}
	return s
}

// Revision returns the revision up to which the snapshot is complete.
func (s *Snapshot[V]) Revision() uint64 { return s.revision }

// Position returns the position of the first event that is not in the snapshot.
func (s *Snapshot[V]) Position() uint64 { return s.position }

// Complete reports that the state is the whole state of the source: it was replaced at least
// once.
func (s *Snapshot[V]) Complete() bool { return s.replaced > 0 }

// Replaced returns how often the whole state was replaced: between two calls, each event takes at most one value out of the state.
func (s *Snapshot[V]) Replaced() int { return s.replaced }

// Restored returns how often Restore was called: revisions of states between two calls can be
// compared.
func (s *Snapshot[V]) Restored() int { return s.restored }

// Len returns the number of objects.
func (s *Snapshot[V]) Len() int { return s.items.Len() }

// Get returns the object with the given key.
func (s *Snapshot[V]) Get(key string) (Item[V], bool) {
	return s.items.Get(Item[V]{Key: key})
}

// CountFrom is from how many objects on it pays to count the rest before it is walked
// or collected: that takes as long as to walk some dozens.
const CountFrom = 256

// Items walks the objects whose keys have the given prefix, in the order of their
// keys, without those before the key from.
func (s *Snapshot[V]) Items(prefix, from string) iter.Seq[Item[V]] {
	return func(yield func(Item[V]) bool) {
		walked, rest := 0, 0
		s.items.Ascend(Item[V]{Key: max(prefix, from)}, func(item Item[V]) bool {
			switch {
			case walked > CountFrom: // the keys are memory that need not be touched
				rest--
				return rest >= 0 && yield(item)
			case !strings.HasPrefix(item.Key, prefix):
				return false
			}
			if walked++; walked > CountFrom {
				rest = s.Count(prefix, After(item.Key))
			}
			return yield(item)
		})
	}
}

// Count returns the number of objects that Items walks, without a walk.
func (s *Snapshot[V]) Count(prefix, from string) int {
	end := s.Len()
	// The first key behind those with the prefix has its last byte that can be higher by one.
	last := len(prefix) - 1
	for last >= 0 && prefix[last] == 0xff {
		last--
	}
	if last >= 0 {
		end = s.Rank(prefix[:last] + string([]byte{prefix[last] + 1}))
	}
	begin := 0
	if first := max(prefix, from); first != "" {
		begin = s.Rank(first)
	}
	return max(0, end-begin)
}

// After returns the first key that can be behind key.
func After(key string) string { return key + "\x00" }

// Nth returns the object before which there are n in the order of the keys.
func (s *Snapshot[V]) Nth(n int) Item[V] {
	item, _ := s.items.GetAt(n)
	return item
}

// Rank returns the number of objects whose keys are lower than key, in
// O(log² n) for n objects.
func (s *Snapshot[V]) Rank(key string) int {
	return sort.Search(s.items.Len(), func(i int) bool {
		return s.Nth(i).Key >= key
	})
}

// Trees estimates the memory of the trees of a snapshot without keys and values: of the tree
// of the objects, whose nodes are filled by two thirds, and of those of the indexes.
func (s *Snapshot[V]) Trees() (objects, indexes int) {
	for _, pairs := range s.indexes {
		indexes += pairs.TreeBytes()
	}
	return s.Len() * int(unsafe.Sizeof(Item[V]{})) * 3 / 2, indexes
}

// Index returns an index as of the snapshot; nil if there was none.
func (s *Snapshot[V]) Index(name string) *postings.Postings { return s.indexes[name] }

// Indexes walks the indexes of the snapshot with their names, in no order.
func (s *Snapshot[V]) Indexes() iter.Seq2[string, *postings.Postings] { return maps.All(s.indexes) }
