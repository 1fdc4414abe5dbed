// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"iter"
	"sort"
	"strings"
	"unique"

	"github.com/tidwall/btree"
)

// Postings says which objects have which value: an ordered set of pairs of a
// value and an object's key. A value's keys are its posting list.
//
// Postings may be read by several goroutines, and written by one while no other
// uses it. Clone makes a version that is independent of later writes in constant
// time, so that an index can be part of a snapshot.
type Postings struct {
	pairs *btree.BTreeG[posting]
}

// posting is one pair. Values are interned: a posting list holds the same one many
// times, and a string that was read out of an object must not keep it alive.
type posting struct {
	value unique.Handle[string]
	key   string
}

func (p posting) less(q posting) bool {
	if p.value != q.value {
		return p.value.Value() < q.value.Value()
	}
	return p.key < q.key
}

// NewPostings returns an empty index.
func NewPostings() *Postings {
	return &Postings{pairs: btree.NewBTreeGOptions(posting.less, btree.Options{NoLocks: true})}
}

// Add files key under value. The key is kept as it is given.
func (p *Postings) Add(value, key string) {
	p.pairs.Set(posting{value: unique.Make(value), key: key})
}

// Remove takes key from the posting list of value.
func (p *Postings) Remove(value, key string) {
	p.pairs.Delete(posting{value: unique.Make(value), key: key})
}

// Clone returns a version that later writes do not change. It must not run while
// another goroutine uses p.
func (p *Postings) Clone() *Postings {
	return &Postings{pairs: p.pairs.Copy()}
}

// Len returns the number of pairs.
func (p *Postings) Len() int { return p.pairs.Len() }

// What a pair and a value take: a pair has 24 bytes in a node of the tree, which is
// filled by half to three quarters; the table of interned values has several small
// parts for each. A test compares them with the heap.
const (
	pairBytes  = 40
	valueBytes = 200
)

// TreeBytes estimates the memory of the pairs.
func (p *Postings) TreeBytes() int { return p.Len() * pairBytes }

// Bytes estimates the memory that p takes, without the keys, which it shares with the
// store. It walks over all values.
func (p *Postings) Bytes() int {
	values := 0
	for range p.Values() {
		values++
	}
	return p.TreeBytes() + values*valueBytes
}

// countedSingly is how many keys are counted one by one, which is quicker than to look
// for the end of the list if that is near.
const countedSingly = 256

// Count returns the number of keys with the given prefix that have value, or limit
// if there are as many. It takes O(log² n) for n pairs: choosing the shortest of several
// lists should not cost as much as reading the longest.
func (p *Postings) Count(value, prefix string, limit int) int {
	count := 0
	for range p.Keys(value, prefix) {
		switch count {
		case limit:
			return limit
		case countedSingly:
			return min(limit, p.rank(value, prefix+pastEveryKey)-p.rank(value, prefix))
		}
		count++
	}
	return count
}

// rank returns the number of pairs that are lower than the one given.
func (p *Postings) rank(value, key string) int {
	pair := posting{value: unique.Make(value), key: key}
	return sort.Search(p.pairs.Len(), func(i int) bool {
		at, _ := p.pairs.GetAt(i)
		return !at.less(pair)
	})
}

// Keys walks the keys with the given prefix that have value, in order.
func (p *Postings) Keys(value, prefix string) iter.Seq[string] {
	return p.KeysFrom(value, prefix, "")
}

// KeysFrom is Keys without those before the key from.
func (p *Postings) KeysFrom(value, prefix, from string) iter.Seq[string] {
	return func(yield func(string) bool) {
		want := unique.Make(value)
		p.pairs.Ascend(posting{value: want, key: max(prefix, from)}, func(at posting) bool {
			return at.value == want && strings.HasPrefix(at.key, prefix) && yield(at.key)
		})
	}
}

// Values walks the values that have a posting list, in order.
func (p *Postings) Values() iter.Seq[string] {
	return func(yield func(string) bool) {
		at := p.pairs.Iter()
		for ok := at.First(); ok; {
			value := at.Item().value
			if !yield(value.Value()) {
				return
			}
			// The next value is behind all keys of this one.
			ok = at.Seek(posting{value: value, key: pastEveryKey})
		}
	}
}

// pastEveryKey sorts behind all keys: they are UTF-8, in which this byte does not
// occur.
const pastEveryKey = "\xff"
