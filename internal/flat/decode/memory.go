// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"sync"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// boxedTogether is the number of string headers of a large object that share an allocation.
const boxedTogether = 16

// memory is the source of the memory for decoded values. The header of an object says how much it
// needs, so that small values are allocated together.
type memory struct {
	chunk   []byte   // what is left of the one that pointer-free values are carved from
	strings []string // string headers not yet handed out

	want        uintptr    // bytes of the chunk when it is first needed
	wantStrings int        // number of string headers when they are first needed
	large       bool       // the object is large: few headers share an allocation
	slabs       *slabTable // nil to allocate singly
}

// expect prepares for the memory that the header of an object announces.
func (m *memory) expect(h *header) { m.want, m.wantStrings = uintptr(h.noscan), h.strings }

// carve returns size zeroed bytes for a pointer-free value.
func (m *memory) carve(size, align uintptr) unsafe.Pointer {
	pad := -uintptr(unsafe.Pointer(unsafe.SliceData(m.chunk))) & (align - 1)
	if m.chunk == nil || pad+size > uintptr(len(m.chunk)) {
		// The first need takes the chunk that the encoder measured, or some of it. Corrupt bytes
		// may have measured too little: then each value gets memory of its own.
		n := max(min(m.want, form.CarveChunk), size)
		m.want -= min(m.want, n)
		words := make([]uint64, (n+7)/8)
		m.chunk, pad = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n), 0
	}
	p := unsafe.Pointer(unsafe.SliceData(m.chunk[pad:]))
	m.chunk = m.chunk[pad+size:]
	return p
}

// stringHeaders returns n empty strings that are used nowhere else.
func (m *memory) stringHeaders(n int) []string {
	if len(m.strings) < n {
		size := m.wantStrings
		if m.large {
			size = min(size, boxedTogether)
		}
		m.strings = make([]string, max(n, size))
	}
	m.wantStrings -= n
	out := m.strings[:n:n]
	m.strings = m.strings[n:]
	return out
}

// header returns the address of a new string header that holds s. In a large object the header of a
// long string is allocated by itself, because other headers in the same allocation would keep the
// string.
func (m *memory) header(s string) *string {
	if m.large && len(s) > form.LongString {
		alone := s
		return &alone
	}
	h := &m.stringHeaders(1)[0]
	*h = s
	return h
}

// newPointee allocates a zero value for a pointer.
func (m *memory) newPointee(t *plan.Plan) unsafe.Pointer {
	if t.Slab != 0 && m.slabs != nil {
		if to := m.slabs.take(t, 1); to != nil {
			return to
		}
	}
	switch {
	case t.Noscan && t.Size <= form.CarveLimit:
		return m.carve(t.Size, uintptr(t.Align))
	case t.Kind == plan.KindString:
		return unsafe.Pointer(&m.stringHeaders(1)[0])
	default:
		return t.Allocate(1)
	}
}

// allocate makes s a slice of n zero elements.
func (m *memory) allocate(t *plan.Plan, s *plan.SliceHeader, n int) {
	size := uintptr(n) * t.Elem.Size
	switch {
	case t.Elem.Kind == plan.KindString:
		s.Data = unsafe.Pointer(unsafe.SliceData(m.stringHeaders(n)))
	case t.Elem.Noscan && size <= form.CarveLimit:
		s.Data = m.carve(size, uintptr(t.Elem.Align))
	default:
		if t.Elem.Slab != 0 && m.slabs != nil {
			if s.Data = m.slabs.take(t.Elem, n); s.Data != nil {
				break
			}
		}
		s.Data = t.Elem.Allocate(n)
	}
	s.Len, s.Cap = n, n
}

// slabTable hands out memory of the slabs while a decoder reads one object.
type slabTable struct {
	kinds  [plan.SlabTypes + 1]uint8 // for each number, the slab plus one
	slabs  [form.SlabKinds]slab
	memory plan.Memory
}

// slab is the unused memory of an allocation for values of one type.
type slab struct {
	next unsafe.Pointer // nil until the first is needed
	left int
}

// slabTables has tables that are not in use, which are zero. A table takes 1.4 KB, a tenth of what a Pod takes.
var slabTables = sync.Pool{New: func() any { return new(slabTable) }}

// newSlabTable returns a table with the counts of a header, which have blocks if many objects have them.
func newSlabTable(t *plan.Root, h *header) *slabTable {
	s := slabTables.Get().(*slabTable)
	if h.many {
		s.memory.Use(t.Blocks(h.counts))
	}
	for i := 0; i+1 < len(h.counts) && i/2 < form.SlabKinds; i += 2 {
		s.kinds[h.counts[i]] = uint8(i/2 + 1)
		s.slabs[i/2].left = int(min(h.counts[i+1], form.SlabSize))
	}
	return s
}

// release makes the table zero again, so that it keeps no memory of the object, and gives it back.
func (s *slabTable) release() {
	*s = slabTable{}
	slabTables.Put(s)
}

// take returns zeroed memory for n values of plan t, or nil if the slab has less.
func (s *slabTable) take(t *plan.Plan, n int) unsafe.Pointer {
	k := s.kinds[t.Slab]
	if k == 0 {
		return nil
	}
	from := &s.slabs[k-1]
	if from.left < n {
		return nil
	}
	if from.next == nil {
		if from.next = s.memory.Slab(int(k - 1)); from.next == nil {
			from.next = t.Allocate(from.left)
		}
	}
	p := from.next
	if from.left -= n; from.left > 0 {
		from.next = unsafe.Add(p, uintptr(n)*t.Size)
	}
	return p
}
