// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// deadline is how long an entry stays that the watch does not pass: longer than the minute in
	// which a server sends a bookmark, and than the longest pause of a Reflector that tries again.
	deadline = 5 * time.Minute
	// sweepEvery is how often entries are removed that the watch has passed. Reads do not need it,
	// so it only has to be soon enough that they do not look at many entries in vain.
	sweepEvery = 100 * time.Millisecond
	// entryBytes is about what an entry takes without its key and its value.
	entryBytes = 192
)

// Options configure an [Overlay]. All must be set.
type Options[V any] struct {
	// State returns the newest state.
	State func() *watchcache.Snapshot[V]
	// Wait waits until the state has reached a revision, or ctx ends.
	Wait func(ctx context.Context, revision uint64) error
	// Ask asks the server for one object.
	Ask func(ctx context.Context, key string) (Answer[V], error)
	// UID and Size describe a value.
	UID  func(V) types.UID
	Size func(V) int
	// Budget bounds the memory, with that of other overlays.
	Budget *Budget
	// Ended is called for an entry that ends before the watch has passed it.
	Ended func(Ending)
}

// Ending is the end of an entry that the watch has not passed.
type Ending struct {
	Key      string
	Outcome  Outcome
	Revision uint64 // of the write
	Reached  uint64 // of the watch
	// Full says that there was no room for the entry; otherwise its deadline has passed.
	Full bool
}

// Overlay is what lies over the state of one engine. Make one with New.
type Overlay[V any] struct {
	options Options[V]
	asking  singleflight.Group

	set atomic.Pointer[Set[V]] // nil if it is empty; written with mu held

	mu      sync.Mutex // guards what follows
	entries *btree.BTreeG[*Entry[V]]
	order   []*Entry[V] // in which they were noted, with some that were replaced
	unknown int
	floor   uint64
	floored time.Time // when floor was raised
	bytes   int
	timer   *time.Timer // that sweeps; nil if there is nothing to sweep
	closed  bool
}

// New returns an empty overlay.
func New[V any](o Options[V]) *Overlay[V] {
	less := func(a, b *Entry[V]) bool { return a.Key < b.Key }
	return &Overlay[V]{options: o, entries: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

// Load returns the entries, nil if there are none. A read that calls it must do so before it takes
// the state.
func (o *Overlay[V]) Load() *Set[V] {
	if o == nil {
		return nil
	}
	return o.set.Load()
}

// Size returns how many entries there are, and how many bytes they take.
func (o *Overlay[V]) Size() (entries, bytes int) {
	set := o.Load()
	if set == nil {
		return 0, 0
	}
	return set.entries.Len(), set.bytes
}

// Note adds what is known after a write. Reads that begin when Note has returned show it.
func (o *Overlay[V]) Note(e Entry[V]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return // no state will pass it
	}
	next := o.complete(&e)
	if last, ok := o.entries.Get(next); ok {
		if next = after(last, next); next == nil {
			return
		}
	}
	o.putLocked(next)
}

// complete returns a deletion with what the state knows of the deleted object.
func (o *Overlay[V]) complete(e *Entry[V]) *Entry[V] {
	if e.Outcome != Gone {
		return e
	}
	item, there := o.options.State().Get(e.Key)
	switch {
	case !there:
	case o.options.UID(item.Value) == e.UID:
		e.Revision = max(e.Revision, item.Revision)
	case e.Revision == 0: // whether the object of the state is the newer one is not known
		if _, noted := o.entries.Get(e); !noted {
			return &Entry[V]{Key: e.Key, Outcome: Unknown}
		}
	}
	return e
}

// answered puts the answer of the server in the place of the entry for which it was asked.
func (o *Overlay[V]) answered(asked *Entry[V], a Answer[V]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now, ok := o.entries.Get(asked); !ok || now != asked {
		return
	}
	next := &Entry[V]{Key: asked.Key, Outcome: Hidden, Revision: a.Revision}
	if a.Found {
		next = &Entry[V]{Key: asked.Key, Outcome: Shown, Revision: a.Item.Revision, Value: a.Item.Value, UID: o.options.UID(a.Item.Value)}
	}
	o.putLocked(next)
}

// putLocked puts e in the place of the entry for its key, unless the state has passed it already.
func (o *Overlay[V]) putLocked(e *Entry[V]) {
	e.noted = time.Now()
	e.bytes = entryBytes + len(e.Key)
	if e.Outcome == Shown {
		e.bytes += o.options.Size(e.Value)
	}
	state := o.options.State()
	if o.passed(state, e) {
		o.removeLocked(e)
	} else {
		o.removeLocked(e)
		o.addLocked(e)
	}
	o.fitLocked(state)
	o.publishLocked()
}

func (o *Overlay[V]) passed(state *watchcache.Snapshot[V], e *Entry[V]) bool {
	if state.Revision() < e.Revision {
		return false // without a look at the state, as for most entries
	}
	item, there := state.Get(e.Key)
	now := found{there: there}
	if there {
		now.uid, now.revision = o.options.UID(item.Value), item.Revision
	}
	return e.passed(state.Revision(), now)
}

func (o *Overlay[V]) addLocked(e *Entry[V]) {
	o.entries.Set(e)
	o.order = append(o.order, e)
	o.bytes += e.bytes
	o.options.Budget.used.Add(int64(e.bytes))
	if e.open() {
		o.unknown++
	}
}

// removeLocked removes the entry with the key of e.
func (o *Overlay[V]) removeLocked(e *Entry[V]) {
	e, ok := o.entries.Delete(e)
	if !ok {
		return
	}
	o.bytes -= e.bytes
	o.options.Budget.used.Add(int64(-e.bytes))
	if e.open() {
		o.unknown--
	}
}

// publishLocked shows the entries to readers, and has them swept.
func (o *Overlay[V]) publishLocked() {
	if o.entries.Len() == 0 && o.floor == 0 {
		o.order = nil
		o.set.Store(nil)
		return
	}
	o.set.Store(&Set[V]{entries: o.entries.Copy(), uid: o.options.UID, unknown: o.unknown, floor: o.floor, bytes: o.bytes})
	if o.timer == nil {
		o.timer = time.AfterFunc(sweepEvery, o.sweep)
	}
}

// sweep removes the entries that the state has passed, and those whose deadline has passed.
func (o *Overlay[V]) sweep() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer == nil {
		return // closed
	}
	state, now := o.options.State(), time.Now()
	kept := o.order[:0]
	for _, e := range o.order {
		switch current, ok := o.entries.Get(e); {
		case !ok || current != e:
		case o.passed(state, e):
			o.removeLocked(e)
		case now.Sub(e.noted) >= deadline:
			o.removeLocked(e)
			if _, held := state.Get(e.Key); held || e.Outcome != Gone && e.Outcome != Hidden { // else reads show the same
				o.options.Ended(Ending{Key: e.Key, Outcome: e.Outcome, Revision: e.Revision, Reached: state.Revision()})
			}
		default:
			kept = append(kept, e)
		}
	}
	clear(o.order[len(kept):])
	o.order = kept
	if state.Revision() >= o.floor || now.Sub(o.floored) >= deadline {
		o.floor = 0
	}
	o.timer = nil
	o.publishLocked()
}

// Close drops all entries, and takes no more.
func (o *Overlay[V]) Close() {
	if o != nil {
		o.drop(true)
	}
}

// Reset drops all entries: the resource versions of the server have gone back, so those of the entries
// say nothing any more.
func (o *Overlay[V]) Reset() {
	if o != nil {
		o.drop(false)
	}
}

func (o *Overlay[V]) drop(forEver bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = o.closed || forEver
	o.options.Budget.used.Add(int64(-o.bytes))
	o.entries.Clear()
	o.bytes, o.unknown, o.floor = 0, 0, 0
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	o.publishLocked()
}
