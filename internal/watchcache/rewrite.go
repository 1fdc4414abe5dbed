// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import "github.com/tidwall/btree"

// Rewrite replaces every value by what f makes of it, without an event: for a change of the form in
// which objects are kept. That may take seconds, in which others read and write; later values are
// rewritten as well. The values of events stay as they are. f may be called twice for an item. It
// must not call the engine, whose lock may be held.
func (e *Engine[V, A]) Rewrite(f func(Item[V]) V) {
	var rewritten *btree.BTreeG[Item[V]]
	e.offLock(func(items *btree.BTreeG[Item[V]]) {
		rewritten = rewrite(items, f)
	}, func(_ *btree.BTreeG[Item[V]], written map[string]struct{}) {
		for key := range written {
			if item, ok := e.items.Get(Item[V]{Key: key}); ok {
				item.Value = f(item)
				rewritten.Set(item)
			} else {
				rewritten.Delete(Item[V]{Key: key})
			}
		}
		e.markAllLocked()
		e.changeLocked()
		e.items = rewritten
		e.told.Rewritten()
	})
}

func rewrite[V any](items *btree.BTreeG[Item[V]], f func(Item[V]) V) *btree.BTreeG[Item[V]] {
	rewritten := newTree[V]()
	items.Scan(func(item Item[V]) bool {
		item.Value = f(item)
		rewritten.Load(item)
		return true
	})
	return settled(rewritten)
}
