// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"iter"
	"strings"

	"github.com/tidwall/btree"
)

// entries are entries in the order of their keys. Copies share what they have in common.
type entries[V any] struct {
	tree *btree.BTreeG[keyed[V]]
}

// keyed is an entry with its key, so that a look for a key needs no entry, and allocates nothing.
type keyed[V any] struct {
	key   string
	entry *Entry[V]
}

func newEntries[V any]() entries[V] {
	less := func(a, b keyed[V]) bool { return a.key < b.key }
	return entries[V]{btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

func (t entries[V]) len() int         { return t.tree.Len() }
func (t entries[V]) clear()           { t.tree.Clear() }
func (t entries[V]) copy() entries[V] { return entries[V]{t.tree.Copy()} }

// get returns the entry for a key, nil if there is none.
func (t entries[V]) get(key string) *Entry[V] {
	found, _ := t.tree.Get(keyed[V]{key: key})
	return found.entry
}

// first returns the entry with the lowest key, nil if there is none.
func (t entries[V]) first() *Entry[V] {
	found, _ := t.tree.Min()
	return found.entry
}

func (t entries[V]) set(e *Entry[V]) { t.tree.Set(keyed[V]{e.Key, e}) }

// remove removes the entry for a key and returns it, nil if there is none.
func (t entries[V]) remove(key string) *Entry[V] {
	removed, _ := t.tree.Delete(keyed[V]{key: key})
	return removed.entry
}

// with walks the entries with prefix and not before from. They must not be changed meanwhile.
func (t entries[V]) with(prefix, from string) iter.Seq[*Entry[V]] {
	return func(yield func(*Entry[V]) bool) {
		t.tree.Ascend(keyed[V]{key: max(prefix, from)}, func(k keyed[V]) bool {
			return strings.HasPrefix(k.key, prefix) && yield(k.entry)
		})
	}
}

// all returns the entries, which may be changed meanwhile.
func (t entries[V]) all() []*Entry[V] {
	all := make([]*Entry[V], 0, t.len())
	for e := range t.with("", "") {
		all = append(all, e)
	}
	return all
}
