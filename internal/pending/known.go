// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"cmp"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// point is a moment of a server: a revision, and how often the server was restored from a backup before. The zero
// point is not known.
type point struct {
	restored int
	revision uint64
}

func pointOf[V any](state *watchcache.Snapshot[V]) point {
	return point{state.Restored(), state.Revision()}
}

func (p point) known() bool { return p.revision > 0 }

func (p point) before(q point) bool {
	return cmp.Or(cmp.Compare(p.restored, q.restored), cmp.Compare(p.revision, q.revision)) < 0
}

func latest(p, q point) point {
	if p.before(q) {
		return q
	}
	return p
}

// known is a pending write, or what the server has answered: what there was under a key at a point.
type known[V any] struct {
	at       point
	revision uint64    // of the object
	uid      types.UID // of the object, if it is known
	gone     bool      // the object was deleted after at
	number   uint64    // in the order of notes
	noted    time.Time
	content  atomic.Pointer[content[V]]
}

// content is the object of a known, which a read makes. It does not change.
type content[V any] struct {
	make    func() (Made[V], error) // nil if it was made
	bytes   int                     // that make holds
	made    Made[V]                 // the object, unless none is Held
	missing bool                    // the response did not have the object, or there was no room: it is ambiguous
	before  *shown[V]               // what reads have shown until then, unless the object is Held; nil for the state alone
}

// shown is an object that reads have shown, and whose next version the cache may be unable to hold.
type shown[V any] struct {
	item    watchcache.Item[V]
	dropped bool // there was no room: item has the key and the revision alone
}

func newKnown[V any](at point, c content[V]) *known[V] {
	k := &known[V]{at: at, revision: at.revision}
	k.content.Store(&c)
	return k
}

// over reports whether k lies over a state of a point that has item under the key, or no item. A state has reached k
// when it is at its point, and does not have an older version, nor the object that is gone.
func (k *known[V]) over(state point, item watchcache.Item[V], there bool, uid func(V) types.UID) bool {
	switch {
	case state.before(k.at):
		return true
	case !there || state.restored > k.at.restored:
		return false
	case k.gone:
		return uid(item.Value) == k.uid
	}
	return item.Revision < k.revision // the cache could not hold the version that was written
}

// may reports whether the cache may be unable to hold the object.
func (k *known[V]) may() bool {
	c := k.content.Load()
	return c.make != nil || c.missing || c.made.Lost != nil
}

// last returns what reads have shown last, of k or before it.
func (k *known[V]) last(key string) *shown[V] {
	c := k.content.Load()
	if c.make == nil && c.made.Held {
		return &shown[V]{item: k.item(key, c)}
	}
	return c.before
}

func (k *known[V]) item(key string, c *content[V]) watchcache.Item[V] {
	return watchcache.Item[V]{Key: key, Revision: k.revision, Value: c.made.Value}
}

// ambiguous says that keys may have been written, and not how. What is known of them is enough from minimum on, by
// which it had happened. It does not change.
type ambiguous[V any] struct {
	Target
	minimum point  // not known until the server has answered a question that was asked after the write
	number  uint64 // of the newest such write, in the order of notes
	noted   time.Time

	// Of all keys with a prefix:
	asked int                     // how many questions for some of them were answered
	list  *watchcache.Snapshot[V] // all of them at minimum, which reads see until the state is there; nil if there is none
	lost  map[string]*known[V]    // what the list does not have because the cache cannot hold it
	bytes int                     // of the list
}

// settledBy reports whether what is known as of a point has what may have been written.
func (a *ambiguous[V]) settledBy(p point) bool { return a.minimum.known() && !p.before(a.minimum) }

// join returns what is ambiguous if a and b are, for keys that cover those of both.
func (a *ambiguous[V]) join(b *ambiguous[V], t Target) *ambiguous[V] {
	if b == nil {
		return a
	}
	joined := &ambiguous[V]{Target: t, number: max(a.number, b.number), noted: b.noted}
	if a.noted.After(b.noted) {
		joined.noted = a.noted
	}
	if a.minimum.known() && b.minimum.known() {
		joined.minimum = latest(a.minimum, b.minimum)
	}
	return joined
}

// by returns what is left of a when a question has been answered that was asked when there were so many notes.
func (a *ambiguous[V]) by(at point, asked uint64) *ambiguous[V] {
	if a.minimum.known() || a.number > asked {
		return a
	}
	next := *a
	next.minimum = at
	return &next
}
