// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"sync"

	"github.com/tidwall/btree"

	"github.com/tarn-dev/tarn/pkg/index"
)

// Item is one object: its key, the revision at which it was written last, and
// what is kept of it.
type Item[V any] struct {
	Key      string
	Revision uint64
	Value    V
}

func less[V any](a, b Item[V]) bool { return a.Key < b.Key }

// Options configure an [Engine].
type Options[V any] struct {
	// Window is the number of events that are kept for subscribers; at least 1. The
	// zero value means DefaultWindow.
	Window int
	// Values passes to yield what an object has under the name of an index. It must
	// always give the same for the same value. An engine without indexes needs none.
	Values func(value V, index string, yield func(string))
	// Dropped is told of every value that is no longer part of the state. It is
	// called with the lock held and must not call the engine.
	Dropped func(value V)
}

// DefaultWindow is long enough for the bursts that a subscriber meets while it
// works on one batch, and short enough to weigh little beside the state.
const DefaultWindow = 1024

// Engine keeps the state of a watched source. Make one with New.
type Engine[V any] struct {
	values  func(V, string, func(string))
	dropped func(V)

	mu       sync.RWMutex // guards what follows
	items    *btree.BTreeG[Item[V]]
	written  uint64 // how often items were changed
	indexes  map[string]*index.Postings
	revision uint64
	complete bool         // Replace was called
	snapshot *Snapshot[V] // of the state; nil after a change
	window   window[V]
	subs     map[*Subscription[V]]struct{}
	changed  chan struct{} // closed and replaced when anything changes; nil if nobody waits
}

// New returns an empty engine at revision 0.
func New[V any](o Options[V]) *Engine[V] {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	if o.Dropped == nil {
		o.Dropped = func(V) {}
	}
	return &Engine[V]{
		values:  o.Values,
		dropped: o.Dropped,
		items:   newTree[V](),
		indexes: map[string]*index.Postings{},
		window:  window[V]{capacity: o.Window},
		subs:    map[*Subscription[V]]struct{}{},
	}
}

func newTree[V any]() *btree.BTreeG[Item[V]] {
	return btree.NewBTreeGOptions(less[V], btree.Options{NoLocks: true})
}

// Change is what a writer says happened: an object was written, or deleted.
type Change[V any] struct {
	// Item is the object. Of a deleted one only Key and Revision are read.
	Item    Item[V]
	Deleted bool
	// Attached is passed on with the event until every active subscriber has read
	// it, and then dropped: for what is too large to be kept in the window.
	Attached any
	// Silent changes the state without an event: for who writes to a store behind the
	// back of its source.
	Silent bool
}

// Apply writes changes in their order. The deletion of an object that is not there
// changes nothing but the revision.
func (e *Engine[V]) Apply(changes ...Change[V]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range changes {
		e.applyLocked(&changes[i])
	}
	e.wakeLocked()
}

func (e *Engine[V]) applyLocked(c *Change[V]) {
	e.makeRoomLocked() // while the state is still the one that the window leads to
	e.snapshot = nil
	e.written++
	e.revision = max(e.revision, c.Item.Revision)
	event := Event[V]{Item: c.Item, Attached: c.Attached}
	if c.Deleted {
		previous, ok := e.items.Delete(Item[V]{Key: c.Item.Key})
		if !ok {
			return
		}
		event.Type, event.Previous = Deleted, previous
		event.Item.Value = *new(V)
		e.reindexLocked(&previous, nil)
		e.dropped(previous.Value)
	} else {
		previous, ok := e.items.Get(Item[V]{Key: c.Item.Key})
		if ok {
			// One string for each key: what has not changed in an index keeps the old one.
			event.Item.Key = previous.Key
		}
		e.items.Set(event.Item)
		if ok {
			event.Type, event.Previous = Updated, previous
			e.reindexLocked(&previous, &event.Item)
			e.dropped(previous.Value)
		} else {
			event.Type = Added
			e.reindexLocked(nil, &event.Item)
		}
	}
	if !c.Silent {
		e.publishLocked(event)
	}
}

// makeRoomLocked makes room for an event in the window. Subscribers that have not
// read what must go for it become lagging.
func (e *Engine[V]) makeRoomLocked() {
	if e.window.full() {
		e.outrunLocked()
		e.window.dropFirst()
	}
}

// publishLocked puts event into the window.
func (e *Engine[V]) publishLocked(event Event[V]) {
	readers := 0
	for s := range e.subs {
		if s.base == nil {
			readers++
		}
	}
	e.window.append(event, readers)
}

// Replace makes items, in any order, the whole state. The items whose revision is
// that of the object there before count as unchanged, unless it is 0. The revision
// becomes the one given, even if that is lower: a source may have been restored from
// a backup.
func (e *Engine[V]) Replace(items []Item[V], revision uint64) {
	fresh := newTree[V]()
	for _, item := range items {
		fresh.Set(item)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.subs {
		e.lagLocked(s)
	}
	e.window.clear()
	e.snapshot = nil
	e.items.Scan(func(item Item[V]) bool {
		e.dropped(item.Value)
		return true
	})
	e.items = fresh
	e.written++
	e.complete = true
	e.revision = revision
	for name := range e.indexes {
		e.indexes[name] = e.indexedLocked(name)
	}
	e.wakeLocked()
}

// Get returns the object with the given key.
func (e *Engine[V]) Get(key string) (Item[V], bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.items.Get(Item[V]{Key: key})
}

// Len returns the number of objects.
func (e *Engine[V]) Len() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.items.Len()
}
