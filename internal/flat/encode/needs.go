// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"math"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// needs adds up the memory that a decoder of the object will need.
type needs struct {
	noscan  uintptr // bytes to carve pointer-free values from
	strings int     // string headers other than those in structs and maps
	charged int     // bytes that the reader will account for, see its method charge
	slabs   slabCounts
}

// carve counts memory that the decoder will carve for a pointer-free value.
func (n *needs) carve(size, align uintptr) {
	if size <= form.CarveLimit {
		n.noscan = (n.noscan+align-1)&^(align-1) + size
	}
}

// aligned returns where a value without pointers may begin, whatever it is, behind so many bytes.
func aligned(bytes uintptr) uintptr { return (bytes + 7) &^ 7 }

// pointee counts the memory of what a pointer points to.
func (n *needs) pointee(t *plan.Plan) {
	n.charged += int(t.Size)
	switch {
	case t.Noscan:
		n.carve(t.Size, uintptr(t.Align))
	case t.Slab != 0:
		n.slabs.add(t, 1)
	case t.Kind == plan.KindString:
		n.strings++
	}
}

// slice counts the memory of the elements of a slice.
func (n *needs) slice(t *plan.Plan, count int) {
	n.charged += count * int(t.Size)
	switch {
	case t.Kind == plan.KindString:
		n.strings += count
	case t.Noscan && count > 0:
		n.carve(t.Size*uintptr(count), uintptr(t.Align))
	case t.Slab != 0:
		n.slabs.add(t, count)
	}
}

// reset counts from zero.
func (n *needs) reset() {
	n.noscan, n.strings, n.charged = 0, 0, 0
	n.slabs.reset()
}

// slabCounts counts the values behind the pointers and slices of one object.
type slabCounts struct {
	counts [plan.SlabTypes + 1]slabCount // 0 is the number of no slab: its takes are those for which there was no room
	seen   []uint8                       // numbers whose count is not zero, in order
}

// slabCount is the number of values of one type, and how often the decoder takes some of them.
type slabCount struct{ values, takes uint8 }

// add counts n values of plan t that the decoder takes at once. If the slab has no room for them,
// the decoder allocates them separately.
func (s *slabCounts) add(t *plan.Plan, n int) {
	c := &s.counts[t.Slab]
	if n > form.SlabSize-int(c.values) {
		s.noRoom()
		return
	}
	if n == 0 {
		return
	}
	if c.takes == 0 {
		s.seen = append(s.seen, t.Slab)
	}
	c.values += uint8(n)
	c.takes++
}

// noRoom counts a take for which there was no room, up to 255.
func (s *slabCounts) noRoom() {
	if c := &s.counts[0]; c.takes < math.MaxUint8 {
		c.takes++
	}
}

// reset forgets the counts.
func (s *slabCounts) reset() {
	for _, n := range s.seen {
		s.counts[n].values, s.counts[n].takes = 0, 0
	}
	s.seen, s.counts[0] = s.seen[:0], slabCount{}
}

// merge adds the counts of a slab that were counted apart.
func (s *slabCounts) merge(number, values, takes uint8) {
	c := &s.counts[number]
	if int(values) > form.SlabSize-int(c.values) {
		s.noRoom()
		return
	}
	if c.takes == 0 {
		s.seen = append(s.seen, number)
	}
	c.values += values
	c.takes += takes
}
