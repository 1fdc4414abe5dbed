// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"cmp"
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
	// proveAfter is how long an entry stays of which nothing says when it was, before the server is asked how
	// far it is, and how often that is at most.
	proveAfter = 10 * time.Second
	// entryBytes is about what an entry takes without its key and its value.
	entryBytes = 288
)

// Options configure an [Overlay]. All must be set.
type Options[V any] struct {
	// State returns the newest state.
	State func() *watchcache.Snapshot[V]
	// Wait waits until the state has reached a revision, and its source has been restored so often, or
	// ctx ends.
	Wait func(ctx context.Context, revision uint64, restored int) error
	// Ask asks the server for one object, or for its revision alone if the key is empty. Ask and List see to
	// it that each of their requests ends.
	Ask func(ctx context.Context, key string) (Answer[V], error)
	// List asks the server for all objects with prefix. Each gets one after another, as an answer of its own.
	List func(ctx context.Context, prefix string, each func(Answer[V])) (revision uint64, err error)
	// UID and Size describe a value. Leaving reports whether it has a deletionTimestamp.
	UID     func(V) types.UID
	Size    func(V) int
	Leaving func(V) bool
	// Budget bounds the memory, with that of other overlays.
	Budget *Budget
	// Ended is called for an entry that ends, or loses its object, before the watch has passed it.
	Ended func(Ending)
}

// Ending is the end of an entry that the watch has not passed.
type Ending struct {
	Key      string
	Outcome  Outcome
	Revision uint64 // of the write
	Reached  uint64 // of the watch
	Reason   Reason
}

// Reason says why an entry has ended.
type Reason int

const (
	// Late says that the watch has not passed the entry until its deadline.
	Late Reason = iota
	// NoRoom says that there was no room for the object. It is told once, of the first entry, until the
	// overlay is empty again, but for entries that only the watch can end.
	NoRoom
	// Forgotten says that there was no room for the keys of so many entries, and that they all have
	// ended: reads of all keys wait. It is told once, too.
	Forgotten
	// ForgottenLost is Forgotten for so many entries of objects that the cache cannot hold: when reads have waited, they
	// show these objects as they were before. It is told once.
	ForgottenLost
)

// Overlay is what lies over the state of one engine. Make one with New.
type Overlay[V any] struct {
	options Options[V]
	asking  singleflight.Group
	patient patient
	life    context.Context // of the questions to the server; ended by Close, with mu held
	end     context.CancelFunc

	set atomic.Pointer[Set[V]] // nil if it is empty; written with mu held

	mu sync.Mutex // guards what follows
	kept[V]
	timer  *time.Timer // that sweeps; nil if there is nothing to sweep
	rests  bool        // the timer goes off after the deadline: only the watch can end what is left
	told   Reason      // of those that are told once
	proved time.Time   // when the server was last asked how far it is
}

// kept is what an overlay holds.
type kept[V any] struct {
	entries entries[V]
	objects *btree.BTreeG[*Entry[V]] // those that keep an object, the oldest first
	size    size
	open    int    // how many entries are
	noted   uint64 // how many entries there have been
	floor   *floor // nil for none
	doubts  []*doubt
	history int // how often the source has been restored, as far as those know who write
}

// New returns an empty overlay.
func New[V any](o Options[V]) *Overlay[V] {
	made := &Overlay[V]{options: o, kept: kept[V]{
		entries: newEntries[V](),
		objects: btree.NewBTreeGOptions(func(a, b *Entry[V]) bool { return a.number < b.number }, btree.Options{NoLocks: true}),
	}}
	made.life, made.end = context.WithCancel(context.Background())
	return made
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
	return set.entries.len() + len(set.doubts), set.bytes
}

// Note adds what is known after a write. Reads that begin when Note has returned show it.
func (o *Overlay[V]) Note(e Entry[V]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.life.Err() != nil {
		return // no state will pass it
	}
	o.retireLocked()
	next := o.completeLocked(&e)
	last := o.entries.get(next.Key)
	if last != nil {
		if next = o.after(last, next); next == nil {
			return
		}
	}
	outrun := last != nil && next.Revision < last.seen && !next.open() // reads may have shown something newer
	if outrun || o.contradictsLocked(next) || o.suspectsLocked(next) {
		next = &Entry[V]{Key: e.Key, Outcome: Unknown}
	}
	if next.Outcome == Unknown {
		next.keepLost(&e)
		next.keepLost(last)
	}
	o.putLocked(next)
	o.publishLocked()
}

// retireLocked removes the oldest objects that the state has passed, so that reads look at few entries while
// many are noted between two sweeps.
func (o *Overlay[V]) retireLocked() {
	state := o.options.State()
	for range 2 {
		oldest, ok := o.objects.Min()
		if !ok || !o.done(state, oldest) {
			return
		}
		o.removeLocked(oldest.Key)
	}
}

// contradictsLocked reports whether the state is as far as e and does not have its object. Then either
// that was deleted meanwhile, or the source was restored from a backup and the state is of before.
func (o *Overlay[V]) contradictsLocked(e *Entry[V]) bool {
	state := o.options.State()
	if e.Outcome != Shown || state.Revision() < e.Revision || state.Restored() < o.history {
		return false
	}
	_, there := state.Get(e.Key)
	return !there
}

// holds reports whether the state has a version of the object of e.
func (o *Overlay[V]) holds(e *Entry[V]) bool {
	item, there := o.options.State().Get(e.Key)
	return there && o.options.UID(item.Value) == e.UID
}

// completeLocked returns a deletion with what the state knows of the deleted object.
func (o *Overlay[V]) completeLocked(e *Entry[V]) *Entry[V] {
	state := o.options.State()
	if e.Outcome != Gone || e.Collection || state.Restored() < o.history {
		return e
	}
	item, there := state.Get(e.Key)
	switch {
	case !there:
	case o.options.UID(item.Value) == e.UID:
		e.Revision = max(e.Revision, item.Revision)
	case e.Revision == 0: // whether the object of the state is the newer one is not known
		if o.entries.get(e.Key) == nil {
			return &Entry[V]{Key: e.Key, Outcome: Unknown}
		}
	}
	return e
}

// putLocked puts e in the place of the entry for its key, unless it is not needed any more.
func (o *Overlay[V]) putLocked(e *Entry[V]) {
	o.noted++
	until, seen := max(e.until, o.listedLocked(e.Key)), uint64(0)
	if last := o.entries.get(e.Key); last != nil {
		until = max(until, last.until)
		if e.open() {
			seen = last.seen
		}
		e.follow(last)
		o.removeLocked(e.Key)
	}
	e.noting = noting{
		number: o.noted, of: cmp.Or(e.of, o.noted), noted: time.Now(), history: max(e.history, o.history), until: until, seen: seen,
	}
	if !o.done(o.options.State(), e) {
		o.addLocked(e)
		o.fitLocked()
	}
}

func (o *Overlay[V]) passed(state *watchcache.Snapshot[V], e *Entry[V]) bool {
	if state.Revision() < e.Revision {
		return false // without a look at the state, as for most entries
	}
	_, now := e.in(state, &o.options)
	return e.passed(now)
}

// done reports whether e is not needed any more.
func (o *Overlay[V]) done(state *watchcache.Snapshot[V], e *Entry[V]) bool {
	return o.passed(state, e) && (e.until == 0 || state.Restored() >= e.history && state.Revision() >= e.until)
}

func (o *Overlay[V]) addLocked(e *Entry[V]) {
	e.size = size{keys: entryBytes + len(e.Key)}
	if e.Lost != nil {
		e.size.keys += len(e.Lost.Error())
	}
	if object, kept := e.object(); kept {
		e.size.objects = o.options.Size(object)
		o.objects.Set(e)
	}
	o.entries.set(e)
	o.countLocked(e, 1)
}

// removeLocked removes the entry for a key.
func (o *Overlay[V]) removeLocked(key string) {
	if e := o.entries.remove(key); e != nil {
		o.objects.Delete(e)
		o.countLocked(e, -1)
	}
}

func (o *Overlay[V]) clearLocked() {
	o.options.Budget.objects.used.Add(int64(-o.size.objects))
	o.options.Budget.keys.used.Add(int64(-o.size.keys))
	o.entries.clear()
	o.objects.Clear()
	o.size, o.open, o.floor, o.doubts = size{}, 0, nil, nil
}

// publishLocked shows the entries to readers, and has them swept.
func (o *Overlay[V]) publishLocked() {
	if o.entries.len() == 0 && o.floor == nil && len(o.doubts) == 0 {
		o.told = 0
		o.set.Store(nil)
		return
	}
	o.set.Store(&Set[V]{
		entries: o.entries.copy(), options: &o.options, open: o.open, floor: o.floor, doubts: o.doubts, number: o.noted, bytes: o.size.bytes(),
	})
	if o.timer == nil || o.rests {
		o.sweepAfterLocked(sweepEvery)
	}
}

// sweepAfterLocked has the entries swept after a time, and not before.
func (o *Overlay[V]) sweepAfterLocked(pause time.Duration) {
	if o.timer != nil {
		o.timer.Stop()
	}
	if o.timer, o.rests = nil, pause > sweepEvery; o.life.Err() == nil {
		o.timer = time.AfterFunc(pause, o.sweep)
	}
}

// Close drops all entries, and takes no more.
func (o *Overlay[V]) Close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end()
	o.clearLocked()
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	o.publishLocked()
}

// Reset says that the resource versions of the server have gone back: those of the entries say nothing
// any more, and the server is asked for what they are of. What is noted from now on is compared with the
// state only when that was restored.
func (o *Overlay[V]) Reset() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.history = o.options.State().Restored() + 1
	entries, doubts := o.entries.all(), o.doubts
	o.clearLocked()
	for _, d := range doubts {
		o.doubtLocked(d.prefix)
	}
	for _, e := range entries {
		o.putLocked(&Entry[V]{Key: e.Key, Outcome: Unknown})
	}
	o.publishLocked()
}
