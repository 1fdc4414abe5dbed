// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"iter"
	"strings"

	"github.com/tidwall/btree"
)

// entry is what there is of one key. It does not change, but for the content of known.
type entry[V any] struct {
	known     *known[V]     // nil for nothing
	ambiguous *ambiguous[V] // nil if it is not
	size      size
	wasOpen   bool // open, when it was put here
}

// number is that of the note of the object.
func (e entry[V]) number() uint64 { return e.known.number }

// open reports whether reads may have to ask the server.
func (e entry[V]) open() bool {
	return e.ambiguous != nil || e.known != nil && e.known.content.Load().missing
}

// keyed is an entry with its key. Looking for one allocates nothing.
type keyed[V any] struct {
	key string
	entry[V]
}

// entries are entries in the order of their keys. Copies share what they have in common. The zero value is of none, to
// read.
type entries[V any] struct{ tree *btree.BTreeG[keyed[V]] }

func newEntries[V any]() entries[V] {
	less := func(a, b keyed[V]) bool { return a.key < b.key }
	return entries[V]{btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

func (t entries[V]) get(key string) (entry[V], bool) {
	if t.tree == nil {
		return entry[V]{}, false
	}
	found, ok := t.tree.Get(keyed[V]{key: key})
	return found.entry, ok
}

// with walks the entries of a target, not before from. They must not be changed meanwhile.
func (t entries[V]) with(of Target, from string) iter.Seq2[string, entry[V]] {
	return func(yield func(string, entry[V]) bool) {
		if !of.All {
			if e, ok := t.get(of.Key); ok && of.Key >= from {
				yield(of.Key, e)
			}
			return
		}
		if t.tree == nil {
			return
		}
		t.tree.Ascend(keyed[V]{key: max(of.Key, from)}, func(k keyed[V]) bool {
			return strings.HasPrefix(k.key, of.Key) && yield(k.key, k.entry)
		})
	}
}

// all returns the entries of a target, which may be changed meanwhile.
func (t entries[V]) all(of Target) (all []keyed[V]) {
	for key, e := range t.with(of, "") {
		all = append(all, keyed[V]{key, e})
	}
	return all
}
