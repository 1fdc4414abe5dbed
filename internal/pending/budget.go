// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"sync/atomic"

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
	// entryBytes is about what an entry takes without its key and its object.
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

// pool is a number of bytes that several informers share.
type pool struct {
	limit int64
	used  atomic.Int64
}

// exceeds reports whether an informer takes more bytes than one may take.
func (p *pool) exceeds(bytes int) bool { return int64(bytes)/share > p.limit-p.used.Load() }

// size is what entries take.
type size struct{ objects, keys int }

func (w *Writes[V]) countLocked(s size, n int) {
	w.now.size.objects += n * s.objects
	w.now.size.keys += n * s.keys
	w.options.Budget.objects.used.Add(int64(n * s.objects))
	w.options.Budget.keys.used.Add(int64(n * s.keys))
}

// setLocked puts e under a key, or removes what is there if e says nothing.
func (w *Writes[V]) setLocked(key string, e entry[V]) {
	if old, there := w.now.entries.tree.Delete(keyed[V]{key: key}); there {
		if w.countLocked(old.size, -1); old.size.objects > 0 {
			w.objects.Delete(old)
		}
		if old.wasOpen {
			w.now.open--
		}
	}
	if e.known == nil && e.ambiguous == nil {
		return
	}
	if e.wasOpen = e.open(); e.wasOpen {
		w.now.open++
	}
	e.size = size{objects: w.sizeOf(e.known), keys: entryBytes + len(key)}
	w.countLocked(e.size, 1)
	set := keyed[V]{key, e}
	w.now.entries.tree.Set(set)
	if e.size.objects > 0 {
		w.objects.Set(set)
	}
}

// sizeOf returns the bytes of the objects of k.
func (w *Writes[V]) sizeOf(k *known[V]) (bytes int) {
	if k == nil {
		return 0
	}
	c := k.content.Load()
	if c.make != nil {
		bytes = c.bytes
	} else if c.made.Held {
		bytes = w.options.Size(c.made.Value)
	}
	if c.before != nil && !c.before.dropped {
		bytes += w.options.Size(c.before.item.Value)
	}
	return bytes
}

func (w *Writes[V]) setPrefixesLocked(prefixes []*ambiguous[V]) {
	for n, all := range [][]*ambiguous[V]{w.now.prefixes, prefixes} {
		for _, a := range all {
			w.countLocked(size{a.bytes, entryBytes + len(a.Key)}, 2*n-1)
		}
	}
	w.now.prefixes = prefixes
}

func (w *Writes[V]) clearLocked() {
	w.setPrefixesLocked(nil)
	w.countLocked(w.now.size, -1)
	w.now.entries, w.now.open = newEntries[V](), 0
	w.objects.Clear()
}

// fitLocked makes room. Lists go first, and then the oldest objects, because the watch reaches those first. What was
// known is ambiguous then. If there is no room for so many keys, all keys are.
func (w *Writes[V]) fitLocked(state *watchcache.Snapshot[V]) {
	objects, keys := &w.options.Budget.objects, &w.options.Budget.keys
	if objects.exceeds(w.now.size.objects) {
		w.changePrefixesLocked(func(a *ambiguous[V]) *ambiguous[V] {
			next := *a
			if next.list, next.lost, next.bytes = nil, nil, 0; a.list != nil {
				next.asked = neverAll
			}
			return &next
		})
	}
	for w.objects.Len() > 1 && objects.exceeds(w.now.size.objects) {
		oldest, _ := w.objects.Min()
		w.dropLocked(oldest)
		w.tellLocked(oldest, state)
	}
	if w.now.entries.tree.Len() > 0 && keys.exceeds(w.now.size.keys) { // prefixes are few in any case
		all := &ambiguous[V]{Target: Target{All: true}, minimum: point{w.now.restored, 1}}
		entries, prefixes := w.now.entries.all(Target{All: true}), w.now.prefixes
		w.tellLocked(entries[0], state)
		for w.clearLocked(); len(entries) > 0; entries = entries[1:] {
			all = all.join(entries[0].ambiguous, all.Target).join(entries[0].missing(), all.Target)
		}
		for _, a := range prefixes {
			all = all.join(a, all.Target)
		}
		w.prefixLocked(all)
	}
}

// dropLocked lets go of the object of an entry: it is ambiguous then, unless it is that of before one that the cache
// cannot hold.
func (w *Writes[V]) dropLocked(e keyed[V]) {
	c := *e.known.content.Load()
	revision := e.known.revision // reads may have shown it
	if c.made.Lost != nil {
		revision = c.before.item.Revision
	}
	c.before = &shown[V]{item: watchcache.Item[V]{Key: e.key, Revision: revision}, dropped: true}
	if c.made.Lost == nil {
		c = content[V]{missing: true, before: c.before}
	}
	e.known = e.known.with(c)
	w.setLocked(e.key, e.entry)
}

// missing returns that what is known of a key is ambiguous, nil if nothing is.
func (e keyed[V]) missing() *ambiguous[V] {
	if e.known == nil {
		return nil
	}
	return &ambiguous[V]{Target: Target{Key: e.key}, minimum: e.known.at, number: e.known.number, noted: e.known.noted}
}

// with returns k with other content.
func (k *known[V]) with(c content[V]) *known[V] {
	next := &known[V]{at: k.at, revision: k.revision, uid: k.uid, gone: k.gone, number: k.number, noted: k.noted}
	next.content.Store(&c)
	return next
}

func (w *Writes[V]) tellLocked(e keyed[V], state *watchcache.Snapshot[V]) {
	if !w.told {
		w.told = true
		w.options.Ended(e.ending(state, true))
	}
}

// ending says that an entry ends.
func (e keyed[V]) ending(state *watchcache.Snapshot[V], noRoom bool) Ending {
	end := Ending{Key: e.key, Outcome: Ambiguous, Reached: state.Revision(), NoRoom: noRoom}
	switch k := e.known; {
	case k == nil:
		end.Revision = e.ambiguous.minimum.revision
	case k.gone:
		end.Outcome, end.Revision = Gone, k.at.revision
	default:
		end.Revision = k.at.revision
		c := k.content.Load()
		switch {
		case c.missing:
		case c.shows():
			end.Outcome = Shown
		default:
			end.Outcome = Hidden
		}
	}
	return end
}

// shows reports whether there is an object, or may be one.
func (c *content[V]) shows() bool { return c.make != nil || c.made.Held }
