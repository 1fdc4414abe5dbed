// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"sync/atomic"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// defaultBudget has room for some thousand objects of ten kilobytes that the watch has not shown,
	// and for the keys of some ten thousand more.
	defaultBudget = 64 << 20
	// share is how many times as much as there is left one informer may take. So the first one takes
	// most of a budget, and there is always something left for the others.
	share = 4
	// leastKeys has room for the keys of some thousand objects.
	leastKeys = 1 << 20
	// entryBytes is about what a statement takes without its key and its object.
	entryBytes = 288
)

// Budget is the number of bytes that the pending writes of one cache take together. The last quarter is for
// keys alone. In addition each informer may hold one object.
type Budget struct {
	objects, all int64 // how many bytes there may be before objects go, and before keys do
	used         atomic.Int64
}

// NewBudget returns a budget of so many bytes; zero stands for the default, 64 MiB. With a negative
// number there is no room for objects, and for as many keys as the last quarter of the default. There is room for a mebibyte
// of keys at least.
func NewBudget(bytes int64) *Budget {
	switch {
	case bytes < 0:
		return &Budget{all: defaultBudget / 4}
	case bytes == 0:
		bytes = defaultBudget
	}
	return &Budget{objects: bytes - bytes/4, all: max(bytes, leastKeys)}
}

// countLocked counts what is noted in the budget.
func (w *Writes[V]) countLocked() {
	w.options.Budget.used.Add(int64(w.now.bytes - w.counted))
	w.counted = w.now.bytes
}

// fitsLocked reports whether what is noted, and so many more bytes, are within the share that one informer has of a limit.
func (w *Writes[V]) fitsLocked(limit int64, more int) bool {
	w.countLocked()
	return int64(w.now.bytes+more)/share <= limit-w.options.Budget.used.Load()-int64(more)
}

// fitLocked makes room: all objects and lists but the newest one go, and what they were about is ambiguous. If there is no room for
// so many keys either, all keys are ambiguous.
func (w *Writes[V]) fitLocked(state *watchcache.Snapshot[V]) {
	if !w.fitsLocked(w.options.Budget.objects, 0) && w.now.objects > 1 {
		w.now.change(func(k *statement[V]) *statement[V] {
			if k.bytes == 0 || k.number == w.now.number {
				return k
			}
			dropped := w.dropLocked(k, state)
			return &dropped
		})
	}
	if !w.fitsLocked(w.options.Budget.all, 0) && w.now.len() > 1 {
		at := uint64(0)
		w.now.change(func(k *statement[V]) *statement[V] {
			if at = max(at, k.at, k.minimum); k.outcome == note.Gone { // at a revision that is not known
				at = unknown
			}
			w.dropLocked(k, state)
			return nil
		})
		w.now.store(w.ambiguousLocked(Target{All: true}, at))
		w.countLocked()
	}
}

// dropLocked returns k without its object or list, for which there is no room. This is told once, until nothing is pending.
func (w *Writes[V]) dropLocked(k *statement[V], state *watchcache.Snapshot[V]) statement[V] {
	if !w.told {
		w.told = true
		w.sweeper.ended = append(w.sweeper.ended, Ending{k.look(), state.Revision(), true})
	}
	return k.with(known[V]{})
}
