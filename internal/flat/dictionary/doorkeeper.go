// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	mathbits "math/bits"
	"sync"
	"sync/atomic"
)

const (
	firstMarks = 1 << 4  // 128 bytes: many stores have one object
	lastMarks  = 1 << 17 // 1 MiB: what the last 5,000 Pods or so brought
	ownerMarks = 1 << 5  // for each object at least: about what a Pod brings
	ownerBits  = 20
)

// doorkeeper decides which byte strings enter a dictionary, as the doorkeeper of a TinyLFU cache
// does: a string enters when a second object brings it. For a string that one object brought, the
// doorkeeper remembers the hash of the string and a mark of the object, nothing else. A full table
// forgets older marks, because only a string that recurs soon is worth an entry. It grows with the
// number of objects that brought strings, and not with the strings that one object brings again and
// again, such as the resource versions of an object that is updated all the time. Two strings whose
// hashes agree in 44 bits count as one string; the second one then enters too early, which does no
// other harm.
type doorkeeper struct {
	slots   atomic.Pointer[[]atomic.Uint64]
	evicted atomic.Uint64 // marks that were forgotten
	patient atomic.Uint64 // with so many of them, it is time to see whether the table should grow
	mu      sync.Mutex    // guards growth
}

// admit says whether an object other than owner brought the string with hash h before. It remembers
// that owner brings the string now. Encoded is how many objects were encoded before.
func (k *doorkeeper) admit(h uint64, owner uint32, encoded int64) bool {
	t := k.slots.Load()
	if t == nil {
		t = k.grow(nil, encoded)
	}
	slots := *t
	mark := h>>ownerBits<<ownerBits | uint64(owner&(1<<ownerBits-1))
	i := int(h>>ownerBits) & (len(slots) - 1)
	first, second := slots[i].Load(), slots[i^1].Load()
	if first>>ownerBits == mark>>ownerBits {
		return first != mark
	}
	if second>>ownerBits == mark>>ownerBits {
		return second != mark
	}
	slots[i].Store(mark)
	if first != 0 { // of two neighbours the newer stands first
		slots[i^1].Store(first)
	}
	if second != 0 && first != 0 && k.evicted.Add(1) > k.patient.Load() && len(slots) < lastMarks {
		k.grow(t, encoded)
	}
	return false
}

// grow replaces old by a larger table with the same marks, if these are of enough objects. It
// returns the table to go on with.
func (k *doorkeeper) grow(old *[]atomic.Uint64, encoded int64) *[]atomic.Uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.slots.Load(); now != old {
		return now
	}
	size := firstMarks
	if old != nil {
		marks, owners := census(*old)
		brought := (marks + int(k.evicted.Load())) / int(encoded+1) // by each encoding
		if size = 2 * len(*old); size > owners*max(ownerMarks, brought+brought/4) {
			k.patient.Store(k.evicted.Load() + uint64(len(*old)/2))
			return old
		}
	}
	slots := make([]atomic.Uint64, size)
	if old != nil {
		for i := range *old {
			if mark := (*old)[i].Load(); mark != 0 {
				enterMark(slots, mark)
			}
		}
	}
	k.patient.Store(k.evicted.Load() + uint64(size/16))
	k.slots.Store(&slots)
	return &slots
}

// census returns the number of marks in a table, and estimates how many objects they are of: it
// counts two as one if they agree in the bits that it looks at.
func census(slots []atomic.Uint64) (marks, owners int) {
	var seen [1 << 6]uint64 // a bit for each owner: 4,096, as many as a full table has objects
	for i := range slots {
		if mark := slots[i].Load(); mark != 0 {
			marks++
			seen[mark>>6&(1<<6-1)] |= 1 << (mark & (1<<6 - 1))
		}
	}
	for _, bits := range seen {
		owners += mathbits.OnesCount64(bits)
	}
	return marks, owners
}

// enterMark puts a mark into a table that nobody else sees yet.
func enterMark(slots []atomic.Uint64, mark uint64) {
	i := int(mark>>ownerBits) & (len(slots) - 1)
	if slots[i].Load() != 0 {
		i ^= 1
	}
	slots[i].Store(mark)
}

// size returns the bytes that the table takes.
func (k *doorkeeper) size() int {
	if t := k.slots.Load(); t != nil {
		return len(*t) * 8
	}
	return 0
}
