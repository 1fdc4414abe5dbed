// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"sync/atomic"
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// defaultBudget has room for some thousand objects of ten kilobytes that the watch has not shown.
const defaultBudget = 64 << 20

// Budget is the number of bytes that the overlays of one cache take together.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of so many bytes; zero stands for the default, 64 MiB.
func NewBudget(bytes int64) *Budget {
	if bytes == 0 {
		bytes = defaultBudget
	}
	return &Budget{limit: bytes}
}

// fitLocked drops the oldest entries until the others have room. Reads of all keys then wait until
// the watch has passed what was dropped: that is one number, and the oldest entries are those that
// the watch passes first. An object that the state does not hold, and that was not to be shown
// either, is not waited for.
func (o *Overlay[V]) fitLocked(state *watchcache.Snapshot[V]) {
	for len(o.order) > 0 && o.options.Budget.used.Load() > o.options.Budget.limit {
		e := o.order[0]
		o.order[0] = nil
		o.order = o.order[1:]
		if current, ok := o.entries.Get(e); !ok || current != e {
			continue
		}
		o.removeLocked(e)
		if o.passed(state, e) {
			continue
		}
		if _, held := state.Get(e.Key); held || e.Outcome == Shown || e.Outcome == Changed {
			o.floor, o.floored = max(o.floor, e.Revision), time.Now()
		}
		o.options.Ended(Ending{Key: e.Key, Outcome: e.Outcome, Revision: e.Revision, Reached: state.Revision(), Full: true})
	}
}
