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

// reindexLocked moves an object from what it had to what it has; nil is for an
// object that was not there, or is not any more.
func (e *Engine[V]) reindexLocked(previous, current *Item[V]) {
	for name, postings := range e.indexes {
		var had, has []string
		if previous != nil {
			e.values(previous.Value, name, func(value string) { had = append(had, value) })
		}
		if current != nil {
			e.values(current.Value, name, func(value string) { has = append(has, value) })
		}
		if slices.Equal(had, has) {
			continue
		}
		for _, value := range had {
			postings.Remove(value, previous.Key)
		}
		for _, value := range has {
			postings.Add(value, current.Key)
		}
	}
}
