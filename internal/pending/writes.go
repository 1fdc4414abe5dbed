// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Options configure [Writes]. All but Budget must be set.
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
	// Budget bounds the memory of all Writes that share it; nil stands for one of their own.
	Budget *Budget
	// Ended is called for a write that has ended, or lost its object, before the watch has reached it, soon after that,
	// in a goroutine of its own and without a lock.
	Ended func(Ending)
}

// Writes are the pending and the ambiguous writes to the objects of one informer. Make them with New.
type Writes[V any] struct {
	options Options[V]
	flights singleflight.Group
	life    context.Context // of the questions to the server; ended by Close, with mu held
	end     context.CancelFunc
	set     atomic.Pointer[set[V]] // what reads see; written with mu held

	mu      sync.Mutex // guards what follows
	now     *set[V]
	counted int  // bytes of now in the budget
	told    bool // that there is no room
	pauses  pauses
	sweeper sweeper
}

// New returns Writes with nothing pending.
func New[V any](o Options[V]) *Writes[V] {
	if o.Budget == nil {
		o.Budget = NewBudget(0)
	}
	w := &Writes[V]{options: o, now: newSet(o.UID)}
	w.set.Store(w.now.copy())
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// Empty reports whether nothing is pending. A read must call it before it takes the state.
func (w *Writes[V]) Empty() bool { return w == nil || w.set.Load().len() == 0 }

// Pending reports whether anything is noted of a key, or of any prefix. A read must call it before it takes the state.
func (w *Writes[V]) Pending(key string) bool {
	return !w.Empty() && (w.set.Load().prefixes.Len() > 0 || w.set.Load().get(key) != nil)
}

// Note notes a write. Reads that begin when it has returned show it, or something newer.
func (w *Writes[V]) Note(e Entry[V]) {
	w.note(func(state *watchcache.Snapshot[V]) {
		at := e.Revision
		if e.Outcome == note.Gone {
			at = w.existedLocked(&e, state)
		}
		// If the object is not in a state of after the write, it was deleted since, or the source was restored.
		if _, there := state.Get(e.Key); e.Outcome == note.Shown && !there && at <= w.now.reached(state) {
			at = 0
		}
		k := w.ambiguousLocked(Target{Key: e.Key}, at)
		if k.told = at; e.Outcome != note.Ambiguous && at > 0 {
			k.minimum, k.told = 0, 0
			k.known = known[V]{outcome: e.Outcome, at: at, make: e.Make, item: watchcache.Item[V]{Key: e.Key, Revision: at}, bytes: e.Bytes}
		}
		k.uid = e.UID
		if w.now.needed(&k, state) {
			w.now.put(k)
		}
	})
}

// NotePrefix notes that any object with a prefix may have been written by a revision, 0 for an unknown one.
func (w *Writes[V]) NotePrefix(prefix string, revision uint64) {
	w.note(func(*watchcache.Snapshot[V]) { w.now.put(w.ambiguousLocked(Target{prefix, true}, revision)) })
}

// ambiguousLocked returns that a target may have been written by a revision, 0 for an unknown one.
func (w *Writes[V]) ambiguousLocked(t Target, revision uint64) statement[V] {
	k := statement[V]{Target: t, minimum: cmp.Or(revision, unknown), number: w.now.number, noted: time.Now()}
	if revision > 0 {
		k.until = k.noted.Add(patience)
	}
	return k
}

// note has f change what is noted. A nil Writes takes nothing, as after Close.
func (w *Writes[V]) note(f func(state *watchcache.Snapshot[V])) {
	if w == nil {
		return
	}
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
func (w *Writes[V]) existedLocked(e *Entry[V], state *watchcache.Snapshot[V]) (at uint64) {
	at = e.Revision
	item, there := state.Get(e.Key)
	held := there && state.Restored() == w.now.restored && w.options.UID(item.Value) == e.UID
	if held {
		at = max(at, item.Revision)
	}
	switch old := w.now.get(e.Key); {
	case old == nil:
	case old.minimum > old.at, (old.make != nil || old.lost != nil) && !held:
		return 0
	case old.uid == e.UID:
		at = max(at, old.at)
	}
	return at
}

// publishLocked shows what there is to readers, and has it swept.
func (w *Writes[V]) publishLocked(state *watchcache.Snapshot[V]) {
	w.fitLocked(state)
	w.told = w.told && w.now.len() > 0
	w.set.Store(w.now.copy())
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
	w.now = newSet(w.options.UID)
	w.publishLocked(w.options.State())
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
		again := w.ambiguousLocked(k.Target, 0)
		return &again
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
			w.now.put(w.ambiguousLocked(Target{All: true}, written))
		}
	})
}
