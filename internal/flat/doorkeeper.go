// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"sync"
	"sync/atomic"
)

const (
	firstMarks = 1 << 10 // 8 KiB: little for a store of few objects
	lastMarks  = 1 << 17 // 1 MiB: what the last 5,000 Pods or so brought
	ownerBits  = 20
)

// doorkeeper decides which byte strings enter a dictionary, as the doorkeeper of a TinyLFU cache
// does: a string enters when a second object brings it. For a string that one object brought, the
// doorkeeper remembers the hash of the string and a mark of the object, nothing else. A full table
// forgets older marks, because only a string that recurs soon is worth an entry. Two strings whose
// hashes agree in 44 bits count as one string; the second one then enters too early, which does no
// other harm.
type doorkeeper struct {
	slots   atomic.Pointer[[]atomic.Uint64]
	evicted atomic.Uint32 // since the last growth
	mu      sync.Mutex    // guards growth
}

// admit says whether an object other than owner brought the string with hash h before. It remembers
// that owner brings the string now.
func (k *doorkeeper) admit(h uint64, owner uint32) bool {
	t := k.slots.Load()
	if t == nil {
		t = k.grow(nil)
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
	// Of two neighbours the newer stands first.
	slots[i].Store(mark)
	slots[i^1].Store(first)
	if second != 0 && first != 0 && int(k.evicted.Add(1)) > len(slots)/2 && len(slots) < lastMarks {
		k.grow(t)
	}
	return false
}

// grow replaces old by a table twice its size with the same marks.
func (k *doorkeeper) grow(old *[]atomic.Uint64) *[]atomic.Uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.slots.Load(); now != old {
		return now
	}
	size := firstMarks
	if old != nil {
		size = 2 * len(*old)
	}
	slots := make([]atomic.Uint64, size)
	if old != nil {
		for i := range *old {
			if mark := (*old)[i].Load(); mark != 0 {
				enterMark(slots, mark)
			}
		}
	}
	k.evicted.Store(0)
	k.slots.Store(&slots)
	return &slots
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
