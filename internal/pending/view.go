// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// View is what a read sees: a state, and what lies over it. It does not change, and is good for the keys of the read
// alone. The zero View is of nothing.
type View[V any] struct {
	base    *watchcache.Snapshot[V] // the state, or a newer list of the server
	state   *watchcache.Snapshot[V] // of the watch
	lost    map[string]*known[V]    // what base does not have because the cache cannot hold it
	at      point                   // of base
	entries entries[V]
	uid     func(V) types.UID
	bytes   int
}

// view returns what there is of the keys of a target.
func (s *set[V]) view(state *watchcache.Snapshot[V], of Target, o *Options[V]) View[V] {
	v := View[V]{base: state, state: state, at: pointOf(state), entries: s.entries, uid: o.UID, bytes: s.size.objects + s.size.keys}
	for _, a := range s.prefixes {
		if a.list != nil && a.covers(of) && v.at.before(a.minimum) {
			v.base, v.lost, v.at = a.list, a.lost, a.minimum
		}
	}
	return v
}

// Base returns the state that the view lies over.
func (v *View[V]) Base() *watchcache.Snapshot[V] { return v.base }

// State returns the state of the watch.
func (v *View[V]) State() *watchcache.Snapshot[V] { return v.state }

// Bytes returns the memory of what lies over the state of the watch.
func (v *View[V]) Bytes() int { return v.bytes }

// Changes reports whether a read of a target would see anything but the state of the watch.
func (v *View[V]) Changes(of Target) bool {
	if v.base != v.state {
		return true
	}
	for key, e := range v.entries.with(of, "") {
		if _, applies := v.effect(key, e); applies {
			return true
		}
	}
	return false
}

// lies reports whether what is known of a key lies over the base.
func (v *View[V]) lies(key string, e entry[V]) bool {
	if e.known == nil {
		return false
	}
	item, there := v.base.Get(key)
	return e.known.over(v.at, item, there, v.uid)
}

// over returns the content of what lies over the base under a key, nil for nothing. What is missing was written since
// the read has asked for it, and does not count.
func (v *View[V]) over(key string, e entry[V]) *content[V] {
	if v.lies(key, e) {
		if c := e.known.content.Load(); !c.missing {
			return c
		}
	}
	lost := v.lost[key]
	switch {
	case lost == nil:
		return nil
	case e.known != nil && e.known.gone && e.known.uid == lost.uid:
		return e.known.content.Load()
	}
	return lost.content.Load()
}

// knownAt returns as of when a key with an entry is known.
func (v *View[V]) knownAt(e entry[V]) point {
	if e.known == nil {
		return v.at
	}
	return latest(v.at, e.known.at)
}

// Find returns the object under a key. If there is one that the cache cannot hold, lost says why.
func (v *View[V]) Find(key string) (item watchcache.Item[V], there bool, lost error) {
	e, _ := v.entries.get(key)
	c := v.over(key, e)
	if c == nil {
		item, there = v.base.Get(key)
		return item, there, nil
	}
	if !c.made.Held {
		return item, false, c.made.Lost
	}
	return e.known.item(key, c), true, nil
}

// Over is what is to change in what the base shows.
type Over[V any] struct {
	// Item is an object to show if Shown is true. Otherwise it has the key of one to hide.
	Item  watchcache.Item[V]
	Shown bool
	// Lost says that there is an object which the cache cannot hold, and why. Item is what reads have shown before it.
	Lost error
	// Dropped says that there was no room for Item, which has its key and its revision alone.
	Dropped bool
}

// Over walks what changes what the base shows, in the order of the keys, with prefix and not before from.
func (v *View[V]) Over(prefix, from string) iter.Seq[Over[V]] {
	return func(yield func(Over[V]) bool) {
		for key, e := range v.entries.with(Target{prefix, true}, from) {
			if over, applies := v.effect(key, e); applies && !yield(over) {
				return
			}
		}
	}
}

// OverKey is Over for one key.
func (v *View[V]) OverKey(key string) (over Over[V], applies bool) {
	e, _ := v.entries.get(key)
	return v.effect(key, e)
}

func (v *View[V]) effect(key string, e entry[V]) (over Over[V], applies bool) {
	c := v.over(key, e)
	if c == nil {
		return over, false
	}
	if c.made.Held {
		return Over[V]{Item: e.known.item(key, c), Shown: true}, true
	}
	item, there := v.base.Get(key)
	if c.made.Lost == nil {
		return Over[V]{Item: item}, there
	}
	if !there {
		item, there = v.state.Get(key)
	}
	if b := c.before; b != nil && (!there || b.item.Revision > item.Revision) {
		return Over[V]{Item: b.item, Lost: c.made.Lost, Dropped: b.dropped}, true
	}
	return Over[V]{Item: item, Lost: c.made.Lost}, there
}

// Count returns the number of objects with prefix, and not before from.
func (v *View[V]) Count(prefix, from string) int {
	count := v.base.Count(prefix, from)
	for over := range v.Over(prefix, from) {
		_, there := v.base.Get(over.Item.Key)
		switch {
		case over.Shown && !there:
			count++
		case !over.Shown && there:
			count--
		}
	}
	return count
}
