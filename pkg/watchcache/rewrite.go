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
	var rewritten *btree.BTreeG[Item[V]]
	e.beside(func(items *btree.BTreeG[Item[V]]) {
		rewritten = rewrite(items, f)
	}, func(_ *btree.BTreeG[Item[V]], written map[string]struct{}) {
		if len(written) > 0 {
			rewritten = rewrite(e.items, f)
		}
		e.noteAllLocked()
		e.snapshot = nil
		e.items = rewritten
	})
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
