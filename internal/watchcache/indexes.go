// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"maps"
	"slices"

	"github.com/tidwall/btree"

	"github.com/tarn-dev/tarn/internal/postings"
)

// AddIndex makes the engine keep an index of what Options.Values gives for name, from now on and
// for the objects that are there: it returns when the index is there. Reading all objects may take
// seconds, in which others read and write. Adding one twice does nothing.
func (e *Engine[V, A]) AddIndex(name string) {
	if slices.Contains(e.indexNames(), name) {
		return
	}
	var pairs *postings.Postings
	e.offLock(func(items *btree.BTreeG[Item[V]]) {
		pairs = e.indexed(items, name)
	}, func(of *btree.BTreeG[Item[V]], written map[string]struct{}) {
		if _, ok := e.indexes[name]; ok {
			return
		}
		added := map[string]*postings.Postings{name: pairs}
		for key := range written {
			if event, ok := change[V, A](of, e.items, key); ok {
				e.reindex(added, &event)
			}
		}
		if e.indexes == nil {
			e.indexes = map[string]*postings.Postings{}
		}
		e.indexes[name] = pairs
		e.changeLocked()
	})
}

// change returns what leads from one state of a key to another; ok is false if it is in
// neither.
func change[V, A any](from, to *btree.BTreeG[Item[V]], key string) (event Event[V, A], ok bool) {
	previous, had := from.Get(Item[V]{Key: key})
	current, has := to.Get(Item[V]{Key: key})
	switch {
	case had && has:
		return Event[V, A]{Type: Updated, Item: current, Previous: previous}, true
	case had:
		return Event[V, A]{Type: Deleted, Item: Item[V]{Key: key}, Previous: previous}, true
	default:
		return Event[V, A]{Type: Added, Item: current}, has
	}
}

// indexNames returns the names of the indexes that there are, in no order.
func (e *Engine[V, A]) indexNames() []string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Collect(maps.Keys(e.indexes))
}

// RemoveIndex drops an index. Snapshots that have it keep it.
func (e *Engine[V, A]) RemoveIndex(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.indexes[name]; ok {
		delete(e.indexes, name)
		e.changeLocked()
	}
}

// indexed returns a new index of items.
func (e *Engine[V, A]) indexed(items *btree.BTreeG[Item[V]], name string) *postings.Postings {
	var built postings.Builder
	items.Scan(func(item Item[V]) bool {
		e.values(item.Value, name, func(value string) { built.Add(value, item.Key) })
		return true
	})
	return built.Postings()
}

// reindex moves an object in indexes from its values before an event to those after it.
func (e *Engine[V, A]) reindex(indexes map[string]*postings.Postings, event *Event[V, A]) {
	for name, pairs := range indexes {
		var had, has []string
		if event.Type != Added {
			e.values(event.Previous.Value, name, func(value string) { had = append(had, value) })
		}
		if event.Type != Deleted {
			e.values(event.Item.Value, name, func(value string) { has = append(has, value) })
		}
		if slices.Equal(had, has) {
			continue
		}
		for _, value := range had {
			pairs.Remove(value, event.Item.Key)
		}
		for _, value := range has {
			pairs.Add(value, event.Item.Key)
		}
	}
}
