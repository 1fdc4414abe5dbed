// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Options configure [Writes]. All must be set.
type Options[V any] struct {
	// State returns the newest state of the watch.
	State func() *watchcache.Snapshot[V]
	// Wait waits until the state has reached a revision, and its source has been restored so often, or ctx ends.
	Wait func(ctx context.Context, revision uint64, restored int) error
	// Ask asks the server for the objects of a target, and for its revision alone if the target is zero. It sees to it that each of its requests ends, and that a panic of
	// a function of the user is an error.
	Ask func(ctx context.Context, of Target) (Answer[V], error)
	// UID and Size describe a value.
	UID  func(V) types.UID
	Size func(V) int
	// Budget bounds the memory of all Writes that share it.
	Budget *Budget
	// Ended is called for a write that has ended, or lost its object, before the watch has reached it, soon after that,
	// in a goroutine of its own and without a lock.
	Ended func(Ending)
}

// Writes are the pending and the ambiguous writes to the objects of one informer. Make them with New.
type Writes[V any] struct {
	options Options[V]
	flights singleflight.Group
	pauses  pauses
	life    context.Context // of the questions to the server; ended by Close, with mu held
	end     context.CancelFunc
	set     atomic.Pointer[set[V]] // what reads see; nil for nothing; written with mu held

	mu      sync.Mutex // guards what follows
	now     *set[V]
	counted size // of now in the budget
	told    bool // that there is no room
	sweeper sweeper
}

// New returns Writes with nothing pending.
func New[V any](o Options[V]) *Writes[V] {
	w := &Writes[V]{options: o}
	w.now = newSet(&w.options)
	w.now.room, w.now.held = o.Budget, map[string]*statement[V]{}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// Empty reports whether nothing is pending. A read must call it before it takes the state.
func (w *Writes[V]) Empty() bool { return w == nil || w.set.Load() == nil }

// Pending reports whether anything is noted of a key, or of any prefix. A read must call it before it takes the state.
func (w *Writes[V]) Pending(key string) bool {
	if w.Empty() {
		return false
	}
	s := w.loaded()
	return len(s.prefixes) > 0 || s.get(key) != nil
}

// loaded returns what is noted.
func (w *Writes[V]) loaded() *set[V] {
	if s := w.set.Load(); s != nil {
		return s
	}
	return newSet(&w.options)
}

// Note notes a write. Reads that begin when it has returned show it, or something newer.
func (w *Writes[V]) Note(e Entry[V]) {
	k := statement[V]{Target: Target{Key: e.Key}, outcome: e.Outcome, at: e.Revision}
	k.object = object[V]{revision: e.Revision, uid: e.UID, make: e.Make, bytes: e.Bytes}
	w.note(func(state *watchcache.Snapshot[V]) {
		k.number, k.noted = w.now.number, time.Now()
		if k.outcome == Gone {
			k.at = w.existedLocked(&k, state)
			k.revision = k.at
		}
		_, there := state.Get(k.Key)
		// If the object is not in a state of after the write, it was deleted since, or the source was restored.
		if k.at == 0 || k.outcome == Shown && !there && k.at <= w.now.reached(state) {
			k.outcome, k.at, k.object = Ambiguous, unknown, object[V]{}
		}
		if w.now.needed(&k, state) {
			w.now.put(k)
		}
	})
}

// NotePrefix notes that any object with a prefix may have been written by a revision, 0 for an unknown one.
func (w *Writes[V]) NotePrefix(prefix string, revision uint64) {
	w.note(func(*watchcache.Snapshot[V]) { w.notePrefixLocked(prefix, revision) })
}

func (w *Writes[V]) notePrefixLocked(prefix string, revision uint64) {
	if revision == 0 {
		revision = unknown
	}
	w.now.putPrefix(statement[V]{Target: Target{prefix, true}, outcome: Ambiguous, at: revision, number: w.now.number, noted: time.Now()})
}

// note has f change what is noted.
func (w *Writes[V]) note(f func(state *watchcache.Snapshot[V])) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		return // no state will reach it
	}
	state := w.stateLocked()
	w.now.number++
	f(state)
	w.publishLocked(state)
}

// stateLocked returns the newest state. All that was noted before a restore is ambiguous, also if nobody has told of it.
func (w *Writes[V]) stateLocked() *watchcache.Snapshot[V] {
	state := w.options.State()
	if state.Restored() > w.now.restored {
		w.restartLocked(state.Restored())
	}
	return state
}

// existedLocked returns the newest revision at which the object of a deletion is known to have been there. There is none
// if the cache may be unable to hold the object: then a state without it does not say that it is gone.
func (w *Writes[V]) existedLocked(k *statement[V], state *watchcache.Snapshot[V]) (at uint64) {
	at = k.at
	item, there := state.Get(k.Key)
	held := there && state.Restored() == w.now.restored && w.options.UID(item.Value) == k.uid
	if held {
		at = max(at, item.Revision)
	}
	switch old := w.now.get(k.Key); {
	case old == nil:
	case old.outcome == Ambiguous, (old.make != nil || old.lost != nil) && !held:
		return 0
	case old.uid == k.uid:
		at = max(at, old.at)
	}
	return at
}

// publishLocked shows what there is to readers, and has it swept.
func (w *Writes[V]) publishLocked(state *watchcache.Snapshot[V]) {
	w.fitLocked(state)
	if w.now.keys.Len() == 0 && len(w.now.prefixes) == 0 {
		w.told = false
		w.set.Store(nil)
	} else {
		next := *w.now
		next.keys = w.now.keys.Copy()
		w.set.Store(&next)
	}
	w.sweepLaterLocked()
}

// Close drops all, and takes no more.
func (w *Writes[V]) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
	w.now = newSet(&w.options)
	w.countLocked()
	w.set.Store(nil)
	if w.sweeper.timer != nil {
		w.sweeper.timer.Stop()
	}
}

// Reset says that the revisions of the server have gone back: all that was noted is ambiguous.
func (w *Writes[V]) Reset() {
	if w != nil {
		w.note(func(state *watchcache.Snapshot[V]) { w.restartLocked(state.Restored() + 1) })
	}
}

// restartLocked says that revisions are of the time when the source was restored so often, and all that was noted is
// not.
func (w *Writes[V]) restartLocked(restored int) {
	w.now.number++
	w.now.restored = restored
	w.now.change(func(k *statement[V]) *statement[V] {
		return &statement[V]{Target: k.Target, outcome: Ambiguous, at: unknown, number: w.now.number, noted: time.Now()}
	})
}

// Listed says that a list of the watch is in the engine, and that what was written by a revision was not noted before
// the list was asked for: if the list is older, all keys are ambiguous until the state has reached it.
func (w *Writes[V]) Listed(written uint64) {
	if w == nil {
		return
	}
	w.note(func(state *watchcache.Snapshot[V]) {
		if w.now.restored > state.Restored() { // it was not restored after all
			w.restartLocked(state.Restored())
		}
		if state.Revision() < written {
			w.notePrefixLocked("", written)
		}
	})
}
