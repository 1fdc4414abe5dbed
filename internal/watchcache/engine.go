// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/signal"
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
	// Window is the number of events that are kept for cursors that were not given them
	// yet; at least 1. The zero value means DefaultWindow.
	Window int
	// History keeps events for expiring cursors; nil keeps none.
	History *History[V]
	// Values passes to yield what an object has under the name of an index. It must
	// always give the same for the same value, and may be called by several goroutines
	// at once. An engine without indexes needs none.
	Values func(value V, index string, yield func(string))
	// Now tells the time, from any moment on, for [Cursor.Lag]. If it is nil, that is the clock of
	// the History, and without a History time stands still.
	Now func() time.Duration
}

// DefaultWindow is long enough for the bursts that a cursor meets while its reader
// works on one batch, and short enough to weigh little beside the state.
const DefaultWindow = 1024

// Engine keeps the state of a watched source: values of the type V, and for the time of an
// event what a writer attaches to that, of the type A. Make one with New.
type Engine[V, A any] struct {
	values func(V, string, func(string))
	clock  func() time.Duration // the engine's time; nil if it stands still

	// snapshot is of the state; nil after a change. It is written with mu held, and read
	// without it.
	snapshot atomic.Pointer[Snapshot[V]]

	mu       sync.RWMutex        // guards what follows
	state[V]                     // of now
	copies   map[*dirty]struct{} // that offLock works on; nil before the first, as cursors and indexes
	window   *window[V, A]
	recent   []*Snapshot[V]             // of older revisions; the one asked for last is at the end
	cursors  map[*Cursor[V, A]]struct{} // the merging ones
	told     Observer[V]
	changed  signal.Broadcast // of anything
}

// state is what a snapshot is made of.
type state[V any] struct {
	items    *btree.BTreeG[Item[V]]
	indexes  map[string]*postings.Postings
	revision uint64
	replaced int // how often Replace or Restore was called
	restored int // how often Restore was called
}

// New returns an empty engine at revision 0.
func New[V, A any](o Options[V]) *Engine[V, A] {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	e := &Engine[V, A]{
		values: o.Values,
		clock:  o.Now,
		state:  state[V]{items: newTree[V]()},
		window: &window[V, A]{limits: limits{floor: o.Window, ceiling: o.Window}},
		told:   Observer[V]{}.complete(),
	}
	if o.History != nil {
		h := o.History.complete()
		begin := h.Clock.Now()
		e.clock = func() time.Duration { return h.Clock.Since(begin) }
		e.window.limits, e.window.size = h.limits(o.Window), h.size()
	}
	return e
}

func newTree[V any]() *btree.BTreeG[Item[V]] {
	return btree.NewBTreeGOptions(less[V], btree.Options{NoLocks: true})
}

// settled returns a tree that was filled at once, with nodes whose memory is their own. A
// node that is split goes on as two in one array, until one of them grows: then that of the
// other one still has the items, and would hold the values for as long as itself.
func settled[V any](tree *btree.BTreeG[Item[V]]) *btree.BTreeG[Item[V]] {
	if tree.Height() < 2 { // no node was split
		return tree
	}
	own := tree.Copy()
	own.ScanMut(func(Item[V]) bool { return true }) // copies each node
	return own
}

// Change is what a writer says happened: an object was written, or deleted. A is the type
// of what the writer attaches to the event.
type Change[V, A any] struct {
	// Item is the object. Only Key and Revision of a deleted one are read.
	Item    Item[V]
	Deleted bool
	// Attached goes with the event to every active cursor, and is dropped then. It is
	// for what is too large to be kept with the state. A History keeps it with the event,
	// and does not count its size.
	Attached A
	// Silent changes the state without an event, for a write to a store that did not come
	// from its source. The package comment says what cursors see of it.
	Silent bool
}

// Apply writes changes in their order. The deletion of an object that is not there
// changes nothing but the revision.
func (e *Engine[V, A]) Apply(changes ...Change[V, A]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for i := range changes {
		e.applyLocked(&changes[i], now)
	}
	e.changed.Notify()
}

func (e *Engine[V, A]) applyLocked(c *Change[V, A], now time.Duration) {
	e.changeLocked()
	e.revision = max(e.revision, c.Item.Revision)
	previous, there := e.items.Get(Item[V]{Key: c.Item.Key})
	if c.Deleted && !there {
		return
	}
	e.markLocked(c.Item.Key)
	event := Event[V, A]{Item: c.Item, Attached: c.Attached}
	held := 0
	if there {
		// One string for each key: an unchanged entry of an index keeps the old string.
		event.Item.Key, event.Previous, held = previous.Key, previous, e.window.sizeOf(previous.Value)
	}
	e.makeRoomLocked(1, held, now) // while the state is still the one that the window leads to
	switch {
	case c.Deleted:
		event.Type, event.Item.Value = Deleted, *new(V)
		e.items.Delete(previous)
	case there:
		event.Type = Updated
		e.items.Set(event.Item)
	default:
		event.Type = Added
		e.items.Set(event.Item)
	}
	e.told.Written(previous)
	e.reindex(e.indexes, &event)
	e.window.append(slot[V, A]{event: event, silent: c.Silent, readers: e.readersLocked(), revision: e.revision, written: now, bytes: held})
}

// makeRoomLocked makes room in the window for more events, which hold so many bytes.
// Cursors that have not read what must go for it become lagging.
func (e *Engine[V, A]) makeRoomLocked(more, bytes int, now time.Duration) {
	first := e.window.fit(more, bytes, now)
	if first == e.window.first {
		return
	}
	e.outrunLocked(first)
	e.window.dropTo(first)
	e.forgetLocked()
}

// readersLocked returns how many cursors will read the next event, of the merging ones.
func (e *Engine[V, A]) readersLocked() (readers int32) {
	for c := range e.cursors {
		if c.seen == nil {
			readers++
		}
	}
	return readers
}

// Replace makes items, in any order, the whole state. The items whose revision is that of the
// object there before count as unchanged, unless it is 0. The revision becomes the one given, even
// if that is lower: a source may have been restored from a backup. The events between the two
// states are not known, so the history begins anew.
func (e *Engine[V, A]) Replace(items []Item[V], revision uint64) { e.replace(items, revision, 0) }

// Restore is Replace for a source that was restored from a backup: an equal revision does not say
// that the object is the same, so all objects count as changed.
func (e *Engine[V, A]) Restore(items []Item[V], revision uint64) { e.replace(items, revision, 1) }

func (e *Engine[V, A]) replace(items []Item[V], revision uint64, restored int) {
	built := newTree[V]()
	for _, item := range items {
		built.Set(item)
	}
	built = settled(built)
	indexes := map[string]*postings.Postings{}
	for _, name := range e.indexNames() {
		indexes[name] = e.indexed(built, name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.cursors {
		e.lagLocked(c)
	}
	e.window.restart(revision)
	e.forgetLocked()
	e.changeLocked()
	e.items.Scan(func(item Item[V]) bool {
		e.told.Written(item)
		return true
	})
	e.items = built
	e.markAllLocked()
	e.replaced++
	e.restored += restored
	e.revision = revision
	for name := range e.indexes {
		if indexes[name] == nil { // it was added meanwhile
			indexes[name] = e.indexed(built, name)
		}
		e.indexes[name] = indexes[name]
	}
	e.changed.Notify()
}

// Get returns the object with the given key. It takes no lock if nothing has changed since
// the newest snapshot was taken.
func (e *Engine[V, A]) Get(key string) (Item[V], bool) {
	if s := e.snapshot.Load(); s != nil {
		return s.Get(key)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.items.Get(Item[V]{Key: key})
}

// Len returns the number of objects.
func (e *Engine[V, A]) Len() int {
	if s := e.snapshot.Load(); s != nil {
		return s.Len()
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.items.Len()
}
