// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"sync"
	"sync/atomic"
)

const (
	firstSightings = 1 << 10 // 8 KiB: little for a store of few objects
	lastSightings  = 1 << 17 // 1 MiB: what the last 5,000 Pods or so brought
	ownerBits      = 20
)

// sightings remembers byte strings that were seen once, by their hash alone, and by which
// object. It forgets the older ones when it is full: what recurs soon is what counts. Two
// hashes that agree in 44 bits merely make an entry too early.
type sightings struct {
	slots   atomic.Pointer[[]atomic.Uint64]
	evicted atomic.Uint32 // since the last growth
	mu      sync.Mutex    // guards growth
}

// again says whether an object other than owner brought h before, and remembers this sighting.
func (s *sightings) again(h uint64, owner uint32) bool {
	t := s.slots.Load()
	if t == nil {
		t = s.grow(nil)
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
	if second != 0 && first != 0 && int(s.evicted.Add(1)) > len(slots)/2 && len(slots) < lastSightings {
		s.grow(t)
	}
	return false
}

// grow replaces old by a table twice its size with the same marks.
func (s *sightings) grow(old *[]atomic.Uint64) *[]atomic.Uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.slots.Load(); now != old {
		return now
	}
	size := firstSightings
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
	s.evicted.Store(0)
	s.slots.Store(&slots)
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
func (s *sightings) size() int {
	if t := s.slots.Load(); t != nil {
		return len(*t) * 8
	}
	return 0
}
