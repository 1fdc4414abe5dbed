// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import "github.com/tidwall/btree"

// Rewrite replaces every value by what f makes of it, without an event: for a
// change of the form in which objects are kept. That may take seconds, in which
// nobody who reads waits. It is for one that no other writes beside: what is written
// meanwhile is rewritten as well, but then all is done again, with the lock held. So
// f may be called twice for an item, and must not call the engine.
func (e *Engine[V]) Rewrite(f func(Item[V]) V) {
	e.mu.Lock()
	items, written := e.items.Copy(), e.written
	e.mu.Unlock()
	rewritten := rewrite(items, f)

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.written != written {
		rewritten = rewrite(e.items, f)
	}
	e.snapshot = nil
	e.written++
	e.items = rewritten
}

func rewrite[V any](items *btree.BTreeG[Item[V]], f func(Item[V]) V) *btree.BTreeG[Item[V]] {
	rewritten := newTree[V]()
	items.Scan(func(item Item[V]) bool {
		item.Value = f(item)
		rewritten.Load(item)
		return true
	})
	return rewritten
}
