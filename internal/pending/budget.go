// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"sync/atomic"
	"time"

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

// Budget is the number of bytes that the pending writes of one cache take together. Three quarters are for
// objects, and a quarter is for keys. In addition each informer may hold one object.
type Budget struct{ objects, keys pool }

// NewBudget returns a budget of so many bytes; zero stands for the default, 64 MiB. With a negative
// number there is no room for objects, and for as many keys as by default. There is room for a mebibyte
// of keys at least.
func NewBudget(bytes int64) *Budget {
	b := &Budget{}
	if bytes == 0 {
		bytes = defaultBudget
	}
	b.objects.limit, b.keys.limit = bytes-bytes/4, max(bytes/4, leastKeys)
	if bytes < 0 {
		b.objects.limit, b.keys.limit = 0, defaultBudget/4
	}
	return b
}

// pool is a number of bytes that several informers share.
type pool struct {
	limit int64
	used  atomic.Int64
}

// exceeds reports whether an informer takes more bytes than one may take. Used lacks some more of these yet.
func (p *pool) exceeds(bytes, more int) bool {
	return int64(bytes)/share > p.limit-p.used.Load()-int64(more)
}

// size is what statements take.
type size struct{ objects, keys int }

func (w *Writes[V]) countLocked() {
	w.options.Budget.objects.used.Add(int64(w.now.size.objects - w.counted.objects))
	w.options.Budget.keys.used.Add(int64(w.now.size.keys - w.counted.keys))
	w.counted = w.now.size
}

// fitLocked tells that there was no room. If there is none for so many keys, all keys are ambiguous.
func (w *Writes[V]) fitLocked(state *watchcache.Snapshot[V]) {
	if k := w.now.refused; k != nil {
		w.now.refused = nil
		w.endLocked(k, state, true)
	}
	if w.countLocked(); w.now.keys.Len()+len(w.now.prefixes) > 1 && w.options.Budget.keys.exceeds(w.now.size.keys, 0) {
		all := statement[V]{Target: Target{All: true}, outcome: Ambiguous, number: w.now.number, noted: time.Now()}
		w.now.change(func(k *statement[V]) *statement[V] {
			if all.at = max(all.at, k.at); k.outcome == Gone { // at a revision that is not known
				all.at = unknown
			}
			w.endLocked(k, state, true)
			return nil
		})
		w.now.putPrefix(all)
		w.countLocked()
	}
}
