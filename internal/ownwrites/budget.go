// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"slices"
	"sync/atomic"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// defaultBudget has room for some thousand objects of ten kilobytes that the watch has not shown,
	// and for the keys of some ten thousand more.
	defaultBudget = 64 << 20
	// share is how many times as much as there is left one overlay may take. So the first one takes
	// most of a budget, and there is always something left for the others.
	share = 4
	// leastKeys has room for the keys of some thousand objects.
	leastKeys = 1 << 20
)

// Budget is the number of bytes that the overlays of one cache take together. Three quarters are for
// objects, and a quarter is for the keys of all entries: an entry whose object has no room is known to
// have changed. In addition each overlay may hold one object, so that an answer can be read.
type Budget struct{ objects, keys pool }

// NewBudget returns a budget of so many bytes; zero stands for the default, 64 MiB. With a negative
// number there is no room for objects, and for as many keys as by default. There is room for a mebibyte
// of keys at least.
func NewBudget(bytes int64) *Budget {
	b := &Budget{}
	switch {
	case bytes < 0:
		b.keys.limit = defaultBudget / 4
	case bytes == 0:
		bytes = defaultBudget
		fallthrough
	default:
		b.objects.limit, b.keys.limit = bytes-bytes/4, max(bytes/4, leastKeys)
	}
	return b
}

// pool is a number of bytes that several overlays share.
type pool struct {
	limit int64
	used  atomic.Int64
}

// exceeds reports whether an overlay takes more bytes than one may take.
func (p *pool) exceeds(bytes int) bool { return int64(bytes)/share > p.limit-p.used.Load() }

// size is what entries take.
type size struct{ objects, keys int }

func (s size) bytes() int { return s.objects + s.keys }

// countLocked adds what an entry takes, n times.
func (o *Overlay[V]) countLocked(e *Entry[V], n int) {
	o.size.objects += n * e.size.objects
	o.size.keys += n * e.size.keys
	o.options.Budget.objects.used.Add(int64(n * e.size.objects))
	o.options.Budget.keys.used.Add(int64(n * e.size.keys))
	if e.open() {
		o.open += n
	}
}

// fitLocked makes room. The oldest objects go first, because the watch passes those first: of them
// stays that they have changed. If there is no room for the keys either, all entries go, and reads of
// all keys wait until the watch is as far as the server is then. That does not help where the state keeps the
// object of before a change that the cache cannot hold: so these entries stay, unless they are too many themselves.
func (o *Overlay[V]) fitLocked() {
	for o.objects.Len() > 1 && o.options.Budget.objects.exceeds(o.size.objects) {
		e, _ := o.objects.Min()
		o.removeLocked(e.Key)
		o.addLocked(e.withoutObject())
		o.tellLocked(e, NoRoom)
	}
	if o.options.Budget.keys.exceeds(o.size.keys) {
		state, e := o.options.State(), o.entries.first()
		stay := slices.DeleteFunc(o.entries.all(), func(e *Entry[V]) bool {
			return o.done(state, e) || !o.lasts(state, e)
		})
		o.clearLocked()
		for _, e := range stay {
			again := *e
			o.addLocked(&again)
		}
		why := Forgotten
		if len(stay) > 0 && o.options.Budget.keys.exceeds(o.size.keys) {
			why, e = ForgottenLost, stay[0]
			o.clearLocked()
		}
		o.floor = o.newFloorLocked(0)
		o.tellLocked(e, why)
	}
}

// lasts reports whether the watch alone can end an entry, or an answer, because reads would show an older object
// without it: one that the state keeps although it has passed the newer one, or may come to keep.
func (o *Overlay[V]) lasts(state *watchcache.Snapshot[V], e *Entry[V]) bool {
	_, now := e.in(state, &o.options)
	if e.Lost != nil {
		return e.loses(now) || e.was != nil && !now.there && now.at < e.Revision
	}
	return e.names() && now.at >= e.Revision && e.isAhead(now)
}

// tellLocked tells that there is no room, once until the overlay is empty again, but for entries that only the watch
// can end.
func (o *Overlay[V]) tellLocked(e *Entry[V], why Reason) {
	if o.told < why {
		o.told = why
		o.options.Ended(Ending{Key: e.Key, Outcome: e.Outcome, Revision: e.Revision, Reached: o.options.State().Revision(), Reason: why})
	}
}
