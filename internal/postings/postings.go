// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package postings

import (
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"unique"

	"github.com/tidwall/btree"
)

// Postings is one index: an ordered set of pairs of a value and the key of an object that has
// it. The keys of one value are its posting list.
//
// Several goroutines can read Postings. A goroutine that writes must be the only one that uses
// them. Clone takes constant time, and the clone does not see later writes: so an index can be
// part of a snapshot.
type Postings struct {
	pairs *btree.BTreeG[posting]
}

// posting is one pair. The value is interned, since a posting list has the same value many
// times, and since the string of an object would keep memory of that object.
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

// New returns an empty index.
func New() *Postings {
	return &Postings{pairs: btree.NewBTreeGOptions(posting.less, btree.Options{NoLocks: true})}
}

// Builder makes Postings of many pairs in a fraction of the time that Add takes for them. The zero
// Builder is ready for use.
type Builder struct {
	lists map[string]*list // by value
}

// list is the posting list of one value.
type list struct {
	value unique.Handle[string]
	keys  []string // in order
}

// Add adds the pair of value and key. The keys come in order; a pair may come several times in
// succession. Add keeps the string key itself, and a copy of value.
func (b *Builder) Add(value, key string) {
	l := b.lists[value]
	if l == nil {
		if b.lists == nil {
			b.lists = map[string]*list{}
		}
		l = &list{value: unique.Make(value)}
		b.lists[l.value.Value()] = l
	}
	if n := len(l.keys); n == 0 || l.keys[n-1] != key {
		l.keys = append(l.keys, key)
	}
}

// Postings returns an index of the pairs that were added.
func (b *Builder) Postings() *Postings {
	p := New()
	for _, value := range slices.Sorted(maps.Keys(b.lists)) {
		l := b.lists[value]
		for _, key := range l.keys {
			p.pairs.Load(posting{value: l.value, key: key})
		}
	}
	return p
}

// Add adds the pair of value and key; a pair that is there already stays. Add keeps the string
// key itself, and a copy of value.
func (p *Postings) Add(value, key string) {
	p.pairs.Set(posting{value: unique.Make(value), key: key})
}

// Remove removes the pair of value and key, if it is there.
func (p *Postings) Remove(value, key string) {
	p.pairs.Delete(posting{value: unique.Make(value), key: key})
}

// Clone returns a copy that later writes to p do not change, nor writes to the copy p. It takes
// constant time. It must not run while another goroutine uses p.
func (p *Postings) Clone() *Postings {
	return &Postings{pairs: p.pairs.Copy()}
}

// Len returns the number of pairs.
func (p *Postings) Len() int { return p.pairs.Len() }

// The bytes that a pair and a value take. A pair has 24 bytes in a node of the tree, and nodes
// are filled by half to three quarters. The table of interned values has several small parts for
// each value. A test compares both numbers with the heap.
const (
	pairBytes  = 40
	valueBytes = 200
)

// TreeBytes estimates the bytes of memory of the pairs alone, in constant time.
func (p *Postings) TreeBytes() int { return p.Len() * pairBytes }

// walkedValues is the number of values up to which Bytes counts them.
const walkedValues = 512

// Bytes estimates the bytes of memory that p takes, the keys apart, which p shares with the
// store. It walks over some hundred values, and takes the others for like them. Nobody may write to p
// meanwhile.
func (p *Postings) Bytes() int {
	values := 0
	for value := range p.Values() {
		if values++; values == walkedValues {
			behind := p.rank(value, pastEveryKey) // pairs of the values so far
			values = values * p.Len() / max(1, behind)
			break
		}
	}
	return p.TreeBytes() + values*valueBytes
}

// countedSingly is the number of keys that Count counts one by one. For a short list this is
// quicker than searching for its end.
const countedSingly = 256

// Count returns the number of keys of value that begin with prefix, but at most limit. It takes
// O(log² n) for n pairs, since to choose the shortest of several lists should cost less than to
// read the longest.
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

// Keys walks the keys of value that begin with prefix, in order. Nobody may write to p meanwhile.
func (p *Postings) Keys(value, prefix string) iter.Seq[string] {
	return p.KeysFrom(value, prefix, "")
}

// KeysFrom is Keys, but begins with the first key that is not lower than from.
func (p *Postings) KeysFrom(value, prefix, from string) iter.Seq[string] {
	return func(yield func(string) bool) {
		want := unique.Make(value)
		p.pairs.Ascend(posting{value: want, key: max(prefix, from)}, func(at posting) bool {
			return at.value == want && strings.HasPrefix(at.key, prefix) && yield(at.key)
		})
	}
}

// Values walks the values that have a posting list, in order. Nobody may write to p meanwhile.
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
