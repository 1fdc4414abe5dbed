// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"iter"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// View is what a read sees: a state, and what lies over it. It does not change, and is good for the keys of the read
// alone.
type View[V any] struct {
	set   *set[V]
	state *watchcache.Snapshot[V]
	base  *watchcache.Snapshot[V] // the state, or a newer list of the server
	at    uint64                  // of base
}

func (s *set[V]) view(state *watchcache.Snapshot[V], of Target) View[V] {
	v := View[V]{set: s, state: state, base: state, at: s.reached(state)}
	for _, p := range s.prefixes.Values() {
		if p.list != nil && p.covers(of) && v.at < p.at {
			v.base, v.at = p.list, p.at
		}
	}
	return v
}

// Base returns the state that the view lies over.
func (v *View[V]) Base() *watchcache.Snapshot[V] { return v.base }

// State returns the state of the watch.
func (v *View[V]) State() *watchcache.Snapshot[V] { return v.state }

// Bytes returns the memory of what lies over the state of the watch.
func (v *View[V]) Bytes() int { return v.set.bytes }

// Changes reports whether a read of a target would see anything but the state of the watch.
func (v *View[V]) Changes(of Target) bool {
	for range v.Over(of, "") {
		return true
	}
	return v.base != v.state
}

// lies reports whether k lies over the base. A list of the server says nothing of an object that the cache could not hold then: what is known at
// its revision lies over it.
func (v *View[V]) lies(k *statement[V]) bool {
	return v.set.over(k, v.base, v.at) || v.base != v.state && k.at == v.at
}

// open returns the statements for which a read of a target has to wait: to make an object, or because there were ambiguous writes
// after what is known of a key, or of all keys.
func (v *View[V]) open(of Target) (open []*statement[V]) {
	for k := range v.set.all(of, "") {
		if (k.make != nil || k.minimum > k.at) && (k.minimum > v.at || v.lies(k)) {
			open = append(open, k)
		}
	}
	at := v.at
	if k := v.set.get(of.Key); k != nil && !of.All {
		at = max(at, k.at)
	}
	for _, p := range v.set.prefixes.Values() {
		if p.meets(of) && at < p.minimum {
			open = append(open, p)
		}
	}
	return open
}

// Find returns the object under a key. If there is one that the cache cannot hold, lost says why.
func (v *View[V]) Find(key string) (item watchcache.Item[V], there bool, lost error) {
	if over, applies := v.OverKey(key); applies {
		return over.Item, over.Shown, over.Lost
	}
	item, there = v.base.Get(key)
	return item, there, nil
}

// Over is what is to change in what the base shows.
type Over[V any] struct {
	// Item is an object to show if Shown is true. Otherwise it has the key of one to hide.
	Item  watchcache.Item[V]
	Shown bool
	// Lost says that there is an object which the cache cannot hold, and why. A read fails if it would show Item, the
	// version of before, or if Any is true, because the state has not reached the write.
	Lost error
	Any  bool
}

// Over walks what changes what the base shows of a target, in the order of the keys, and not before from.
func (v *View[V]) Over(of Target, from string) iter.Seq[Over[V]] {
	return func(yield func(Over[V]) bool) {
		for k := range v.set.all(of, from) {
			if over, applies := v.effect(k); applies && !yield(over) {
				return
			}
		}
	}
}

// OverKey is Over for one key.
func (v *View[V]) OverKey(key string) (over Over[V], applies bool) { return v.effect(v.set.get(key)) }

func (v *View[V]) effect(k *statement[V]) (over Over[V], applies bool) {
	if k == nil || k.at == 0 || !v.lies(k) {
		return over, false
	}
	if k.outcome == note.Shown {
		return Over[V]{Item: k.item, Shown: true}, true
	}
	item, there := v.base.Get(k.Key)
	if k.lost != nil && !there {
		item, there = v.state.Get(k.Key)
	}
	unreached := k.lost != nil && v.set.reached(v.state) < k.at
	item.Key = k.Key
	return Over[V]{Item: item, Lost: k.lost, Any: unreached}, there || unreached
}

// Count returns the number of objects with prefix, and not before from.
func (v *View[V]) Count(prefix, from string) int {
	count := v.base.Count(prefix, from)
	for over := range v.Over(Target{prefix, true}, from) {
		if _, there := v.base.Get(over.Item.Key); over.Shown && !there {
			count++
		} else if !over.Shown && there {
			count--
		}
	}
	return count
}
