// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import "sync/atomic"

// hashIndex finds the number of an entry by its hash. It uses open addressing with linear probing,
// and is at most three quarters full. A slot holds the upper half of the hash and the number plus
// one. A slot never changes once it is filled, so readers need no lock. There may be one writer at
// a time.
type hashIndex struct {
	slots []atomic.Uint64
}

// newHashIndex returns an index of size slots, a power of two.
func newHashIndex(size int) *hashIndex {
	return &hashIndex{slots: make([]atomic.Uint64, size)}
}

// insert adds entry id. The caller makes sure that a slot is free.
func (x *hashIndex) insert(h uint64, id uint32) {
	mask := uint64(len(x.slots) - 1)
	i := h & mask
	for x.slots[i].Load() != 0 {
		i = (i + 1) & mask
	}
	x.slots[i].Store(h>>32<<32 | uint64(id+1))
}
