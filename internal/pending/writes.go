// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"
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
	// Ask asks the server for the objects of a target. Revision asks it for its revision alone. Both see to it that
	// each of their requests ends, and that a panic of a function of the user is an error.
	Ask      func(ctx context.Context, of Target) (Answer[V], error)
	Revision func(ctx context.Context) (uint64, error)
	// UID and Size describe a value.
	UID  func(V) types.UID
	Size func(V) int
	// Budget bounds the memory, with that of others.
	Budget *Budget
	// Ended is called for a write that ends, or loses its object, before the watch has reached it.
	Ended func(Ending)
}

// Ending is the end of a write that the watch has not reached.
type Ending struct {
	Key      string
	Outcome  Outcome
	Revision uint64 // of the write
	Reached  uint64 // of the watch
	// NoRoom says that there was no room, which is told once until nothing is pending. Otherwise the watch was too late.
	NoRoom bool
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
	now     set[V]
	objects *btree.BTreeG[keyed[V]] // the entries that keep an object, the oldest first
	told    bool                    // that there is no room
	sweeper sweeper
}

// set is what there is at one moment. It does not change once it is published.
type set[V any] struct {
	entries  entries[V]
	open     int             // how many of them are ambiguous
	prefixes []*ambiguous[V] // those of all keys with a prefix
	number   uint64          // how many notes there have been
	restored int             // how often the source was restored, as far as writers know
	size     size
}

// maxPrefixes is how many prefixes are ambiguous. With one more, all keys are.
const maxPrefixes = 16

// New returns Writes with nothing pending.
func New[V any](o Options[V]) *Writes[V] {
	w := &Writes[V]{options: o, now: set[V]{entries: newEntries[V]()}}
	w.objects = btree.NewBTreeGOptions(func(a, b keyed[V]) bool { return a.number() < b.number() }, btree.Options{NoLocks: true})
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// Pending reports whether anything is known of a key beside the state, or of all keys. A read must call it before it
// takes the state.
func (w *Writes[V]) Pending(key string) bool {
	if w == nil {
		return false
	}
	s := w.set.Load()
	if s == nil {
		return false
	}
	_, there := s.entries.get(key)
	return there || len(s.prefixes) > 0
}

// Empty reports whether nothing is pending. A read must call it before it takes the state.
func (w *Writes[V]) Empty() bool { return w == nil || w.set.Load() == nil }

// Note notes a write. Reads that begin when it has returned show it, or something newer.
func (w *Writes[V]) Note(e Entry[V]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		return // no state will reach it
	}
	state := w.options.State()
	w.beginLocked(state)
	k := newKnown(w.pointLocked(e.Revision), content[V]{make: e.Make, bytes: e.Bytes, missing: e.Outcome == Ambiguous})
	k.uid, k.gone, k.number, k.noted = e.UID, e.Outcome == Gone, w.now.number, time.Now()
	_, there := state.Get(e.Key)
	switch {
	case !k.at.known() && !k.gone, k.gone && !w.deletesLocked(e.Key, k, state),
		// The object was deleted since, or the source was restored from a backup, and the state is of before.
		e.Outcome == Shown && !there && !pointOf(state).before(k.at):
		w.ambiguousLocked(&ambiguous[V]{Target: Target{Key: e.Key}})
	default:
		w.putLocked(state, e.Key, k)
	}
	w.publishLocked(state)
}

// NotePrefix notes that any object with a prefix may have been written by a revision, 0 for an unknown one.
func (w *Writes[V]) NotePrefix(prefix string, revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		return
	}
	state := w.options.State()
	w.beginLocked(state)
	w.ambiguousLocked(&ambiguous[V]{Target: Target{prefix, true}, minimum: w.pointLocked(revision)})
	w.publishLocked(state)
}

func (w *Writes[V]) beginLocked(state *watchcache.Snapshot[V]) {
	w.now.number++
	w.now.restored = max(w.now.restored, state.Restored())
}

// pointLocked returns the point of a revision of now, which may be 0.
func (w *Writes[V]) pointLocked(revision uint64) (p point) {
	if revision > 0 {
		p = point{w.now.restored, revision}
	}
	return p
}

// deletesLocked completes a deletion with the newest revision at which the object is known to have been there. There
// is none if the cache may be unable to hold the object: then a state without it does not say that it is gone.
func (w *Writes[V]) deletesLocked(key string, k *known[V], state *watchcache.Snapshot[V]) bool {
	item, there := state.Get(key)
	held := there && state.Restored() == w.now.restored && w.options.UID(item.Value) == k.uid
	if held {
		k.at = latest(k.at, w.pointLocked(item.Revision))
	}
	if e, ok := w.now.entries.get(key); ok && e.known != nil {
		if e.known.uid == k.uid {
			k.at = latest(k.at, e.known.at)
		}
		if e.known.may() && !e.known.gone && !held {
			return false
		}
	}
	return k.at.known()
}

// putLocked notes what is known of a key, unless something newer is.
func (w *Writes[V]) putLocked(state *watchcache.Snapshot[V], key string, k *known[V]) {
	e, _ := w.now.entries.get(key)
	old, c := e.known, *k.content.Load()
	if old != nil && old.gone && old.uid == k.uid && !k.gone { // it stays so, whatever was on its way
		k.at, k.gone, c = latest(old.at, k.at), true, content[V]{}
	}
	if c.make != nil || c.missing || c.made.Lost != nil {
		c.before = w.lastLocked(key, old)
	}
	k.content.Store(&c)
	if old != nil && (k.at.before(old.at) || k.at == old.at && !k.gone && !old.content.Load().missing) {
		return
	}
	if e.known = k; !w.neededLocked(key, k, state) {
		e.known = nil // the watch was faster
	}
	w.setLocked(key, e)
}

// lastLocked returns what reads have shown last under a key, in place of the state.
func (w *Writes[V]) lastLocked(key string, k *known[V]) (last *shown[V]) {
	if k != nil {
		last = k.last(key)
	}
	for _, a := range w.now.prefixes {
		if a.list == nil {
			continue
		}
		if item, there := a.list.Get(key); there && (last == nil || last.item.Revision < item.Revision) {
			last = &shown[V]{item: item}
		}
	}
	return last
}

// ambiguousLocked notes that the keys of a may have been written since the newest note.
func (w *Writes[V]) ambiguousLocked(a *ambiguous[V]) {
	a.number, a.noted = w.now.number, time.Now()
	if !a.All {
		e, _ := w.now.entries.get(a.Key)
		e.ambiguous = a.join(e.ambiguous, a.Target)
		w.setLocked(a.Key, e)
		return
	}
	w.prefixLocked(a)
}

// prefixLocked notes that all keys with a prefix are ambiguous, in place of those of its keys that are.
func (w *Writes[V]) prefixLocked(a *ambiguous[V]) {
	var others []*ambiguous[V] // a new slice: that of before is read
	for _, b := range w.now.prefixes {
		switch {
		case !a.covers(b.Target), a.list == nil && b.list != nil, a.list != nil && !b.settledBy(a.minimum):
			others = append(others, b)
		case a.list == nil:
			a = a.join(b, a.Target)
		}
	}
	if len(others) >= maxPrefixes {
		for _, b := range others {
			a = a.join(b, Target{All: true})
		}
		others = nil
	}
	w.setPrefixesLocked(append(others, a))
}

// changePrefixesLocked puts what change makes of each prefix in its place, nothing if that is nil.
func (w *Writes[V]) changePrefixesLocked(change func(*ambiguous[V]) *ambiguous[V]) {
	var changed []*ambiguous[V]
	for _, a := range w.now.prefixes {
		if a = change(a); a != nil {
			changed = append(changed, a)
		}
	}
	w.setPrefixesLocked(changed)
}

// neededLocked reports whether k lies over a state, or over a list that reads see in its place.
func (w *Writes[V]) neededLocked(key string, k *known[V], state *watchcache.Snapshot[V]) bool {
	item, there := state.Get(key)
	if k.over(pointOf(state), item, there, w.options.UID) {
		return true
	}
	return slices.ContainsFunc(w.now.prefixes, func(a *ambiguous[V]) bool {
		return a.list != nil && a.covers(Target{Key: key}) && pointOf(state).before(a.minimum)
	})
}

// publishLocked shows what there is to readers, and has it swept.
func (w *Writes[V]) publishLocked(state *watchcache.Snapshot[V]) {
	w.fitLocked(state)
	if w.now.entries.tree.Len() == 0 && len(w.now.prefixes) == 0 {
		w.told = false
		w.set.Store(nil)
		return
	}
	next := w.now
	next.entries.tree = w.now.entries.tree.Copy()
	w.set.Store(&next)
	w.sweepSoonLocked()
}

// Close drops all, and takes no more.
func (w *Writes[V]) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
	w.clearLocked()
	w.set.Store(nil)
	w.sweeper.stop()
}

// Reset says that the revisions of the server have gone back: all that was noted is ambiguous.
func (w *Writes[V]) Reset() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	state := w.options.State()
	w.restartLocked(state.Restored() + 1)
	w.publishLocked(state)
}

// restartLocked says that revisions are of the time when the source was restored so often, and all that was noted is
// not.
func (w *Writes[V]) restartLocked(restored int) {
	entries, prefixes := w.now.entries.all(Target{All: true}), w.now.prefixes
	w.clearLocked()
	w.now.number++
	w.now.restored = restored
	for _, e := range entries {
		w.ambiguousLocked(&ambiguous[V]{Target: Target{Key: e.key}})
	}
	for _, a := range prefixes {
		w.ambiguousLocked(&ambiguous[V]{Target: a.Target})
	}
}

// Listed says that a list of the watch is in the engine, and that what was written by a revision was not noted before
// the list was asked for: if the list is older, all keys are ambiguous until the state has reached it.
func (w *Writes[V]) Listed(written uint64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	state := w.options.State()
	if w.life.Err() != nil || w.now.restored <= state.Restored() && state.Revision() >= written {
		return
	}
	if w.now.restored > state.Restored() { // it was not restored after all
		w.restartLocked(state.Restored())
	}
	if w.beginLocked(state); state.Revision() < written {
		w.ambiguousLocked(&ambiguous[V]{Target: Target{All: true}, minimum: w.pointLocked(written)})
	}
	w.publishLocked(state)
}
