// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"slices"

	"github.com/tarn-dev/tarn/pkg/index"
)

// AddIndex makes the engine keep an index of what Options.Values gives for name,
// from now on and for the objects that are there. Adding one twice does nothing.
func (e *Engine[V]) AddIndex(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.indexes[name]; !ok {
		e.indexes[name] = e.indexedLocked(name)
		e.snapshot = nil
	}
}

// RemoveIndex drops an index. Snapshots that have it keep it.
func (e *Engine[V]) RemoveIndex(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.indexes[name]; ok {
		delete(e.indexes, name)
		e.snapshot = nil
	}
}

// indexedLocked returns a new index of all objects.
func (e *Engine[V]) indexedLocked(name string) *index.Postings {
	postings := index.NewPostings()
	e.items.Scan(func(item Item[V]) bool {
		e.values(item.Value, name, func(value string) { postings.Add(value, item.Key) })
		return true
	})
	return postings
}

// reindex moves an object in indexes from what it had before an event to what it has
// after it.
func (e *Engine[V]) reindex(indexes map[string]*index.Postings, event *Event[V]) {
	for name, postings := range indexes {
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
			postings.Remove(value, event.Item.Key)
		}
		for _, value := range has {
			postings.Add(value, event.Item.Key)
		}
	}
}
