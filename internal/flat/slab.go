// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import "unsafe"

// Values of one type that stand behind several pointers and slices of an object are allocated
// together, in a slab. The encoder counts them. The header has the counts as pairs of bytes: the
// number of a type, and the number of its values. Like any recurring value, all pairs together may
// be the number of a dictionary entry.

const (
	slabKinds = 24 // types in one object
	slabSize  = 16 // values in one slab: whoever keeps one keeps the others
)

const (
	slabTypes = 255     // numbers for types; values of further types are allocated singly
	slabLimit = 1 << 10 // bytes of a value, so that a slab stays small
)

// number numbers the types of the pointees for their slabs. The first number is after+1; the last
// one is returned. A pointer-free type gets no number, because its values are carved from a chunk.
func (c *compiler) number(after int) int {
	for _, p := range c.pointees {
		if p.slab == 0 && p.kind == kindStruct && !p.noscan && p.size <= slabLimit && after < slabTypes {
			after++
			p.slab = uint8(after)
		}
	}
	return after
}

// slabCounts counts the values behind the pointers and slices of one object.
type slabCounts struct {
	counts [slabTypes + 1]struct{ values, takes uint8 }
	seen   []uint8 // numbers whose count is not zero, in order
}

// add counts n values of plan t that the decoder takes at once. If the slab has no room for them,
// the decoder allocates them separately.
func (s *slabCounts) add(t *plan, n int) {
	c := &s.counts[t.slab]
	if n == 0 || n > slabSize-int(c.values) {
		return
	}
	if c.takes == 0 {
		s.seen = append(s.seen, t.slab)
	}
	c.values += uint8(n)
	c.takes++
}

// reset forgets the counts.
func (s *slabCounts) reset() {
	for _, n := range s.seen {
		s.counts[n].values, s.counts[n].takes = 0, 0
	}
	s.seen = s.seen[:0]
}

// slabBlock writes the counts of those types for which a slab pays. It writes them behind the
// object, and returns their position.
func (w *writer) slabBlock() int {
	at := len(w.buf)
	w.buf = append(w.buf, 0)
	for _, n := range w.needs.slabs.seen {
		if c := w.needs.slabs.counts[n]; c.takes > 1 && len(w.buf)-at < 2*slabKinds {
			w.buf = append(w.buf, n, c.values)
			w.buf[at] += 2 << 1
		}
	}
	w.share(at, w.private)
	return at
}

// slabTable hands out memory of the slabs while a decoder reads one object.
type slabTable struct {
	kinds [slabTypes + 1]uint8 // for each number, the slab plus one
	slabs [slabKinds]slab
}

// slab is the unused memory of an allocation for values of one type.
type slab struct {
	next unsafe.Pointer // nil until the first is needed
	left int
}

// skipSlabs reads the block of counts.
func (r *reader) skipSlabs() {
	h := r.uvarint()
	block := r.buf[r.pos:]
	if h&1 != 0 {
		s, ok := r.view.Entry(h >> 1)
		if !ok || len(s) == 0 || s[0]&1 != 0 {
			r.fail()
			return
		}
		h, block = uint64(s[0]), s[1:]
	} else {
		r.pos += int(min(h>>1, uint64(len(block))))
	}
	if h>>1 > uint64(len(block)) {
		r.fail()
		return
	}
	r.head.counts = block[:h>>1]
}

// fill enters the counts.
func (s *slabTable) fill(counts string) {
	for i := 0; i+1 < len(counts) && i/2 < slabKinds; i += 2 {
		s.kinds[counts[i]] = uint8(i/2 + 1)
		s.slabs[i/2].left = int(min(counts[i+1], slabSize))
	}
}

// take returns zeroed memory for n values of plan t, or nil if the slab has less.
func (s *slabTable) take(t *plan, n int) unsafe.Pointer {
	k := s.kinds[t.slab]
	if k == 0 {
		return nil
	}
	from := &s.slabs[k-1]
	if from.left < n {
		return nil
	}
	if from.next == nil {
		from.next = t.allocate(from.left)
	}
	p := from.next
	if from.left -= n; from.left > 0 {
		from.next = unsafe.Add(p, uintptr(n)*t.size)
	}
	return p
}
