// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"math"
	"math/bits"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// decoder reads one Object. After a failure it stands at the end of its bytes and reads zeros, so
// every loop ends soon. The method finish reports the failure.
type decoder struct {
	source
	memory
	comparison
	depth int
	bad   bool

	flags       byte
	fingerprint byte
}

// source is the bytes that a decoder reads, and the dictionary and parts to which they refer.
type source struct {
	buf  string          // the bytes that are being read: body, or a dictionary entry
	pos  int             // the next byte of buf
	view dictionary.View // the entries of the dictionary
	body string          // the object without its header
	base int             // where in body the section begins that is being read, if one is
	// table is what the header says of sections, see section.go; empty for most objects.
	table string
	// annex is the annex of the object, never nil. The position in a string reference counts from
	// the start of the parts, or from the start of the body if there are no parts.
	annex *annex
}

// memory is the source of the memory for decoded values. The header of an object says how much it
// needs, so that small values are allocated together.
type memory struct {
	carved  unsafe.Pointer // the chunk that pointer-free values are carved from
	carvedN uintptr        // bytes of the chunk
	carvedO uintptr        // bytes of the chunk that are taken
	strs    []string       // string headers not yet handed out
	want    uintptr        // bytes of the chunk when it is first needed
	wantStr int            // number of string headers when they are first needed

	counts string     // of slabs, from the header
	slabs  *slabTable // nil to allocate singly

	budget int // bytes that may still be allocated: bounds what corrupt bytes can ask for
}

// comparison is the state of a comparison with another object, see DecodeReusing.
type comparison struct {
	other    *decoder // reads the other object
	compared int      // where in buf the bytes that are not yet compared begin
	apart    bool     // the values differ, or no comparison goes on
}

const (
	// headerSize is the part of the header that has a fixed size.
	headerSize = 2
	// flagMetadata says that an ObjectMeta comes first.
	flagMetadata = 1
	// flagContent says that it is the head of unstructured content.
	flagContent = 2
	// flagSections says that the header has a table of sections.
	flagSections = 4
	// leastBudget bounds the memory that decoding one Object may take, without its strings. The
	// encoder refuses larger objects. The bound is far above the size that an API server accepts.
	leastBudget = 256 << 20
)

// open starts reading o.
func (d *decoder) open(o Object) bool {
	if len(o.data) < headerSize {
		return false
	}
	d.flags, d.fingerprint = o.data[0]&^flagSections, o.data[1]
	d.buf, d.pos = o.data, headerSize
	d.annex = &noAnnex
	if o.annex != nil {
		d.annex, d.view = o.annex, o.annex.Dict.View()
	}
	noscan, strs := d.uvarint(), d.uvarint()
	d.skipSlabs()
	if o.data[0]&flagSections != 0 {
		d.openTable()
	}
	if d.bad {
		return false
	}
	d.budget = leastBudget
	d.body = o.data[d.pos:]
	d.buf, d.pos = d.body, 0
	if noscan > largestChunk || strs > largestHeaders {
		return false
	}
	d.want, d.wantStr = uintptr(noscan), int(strs)
	return true
}

// fail notes that the bytes are corrupt.
func (d *decoder) fail() {
	d.bad = true
	d.pos = len(d.buf)
}

// finish returns ErrCorrupt if reading failed or bytes are left over.
func (d *decoder) finish() error {
	if d.bad || d.pos != len(d.buf) {
		return ErrCorrupt
	}
	return nil
}

// enter goes one level deeper. It fails when the level is too deep.
func (d *decoder) enter() bool {
	d.depth++
	if d.depth > 4*maxDepth { // one level of the encoder is up to four levels here
		d.fail()
	}
	return !d.bad
}

// charge subtracts an allocation of n bytes from the budget. It fails when the budget is used up.
func (d *decoder) charge(n int) bool {
	d.budget -= n
	if d.budget < 0 {
		d.fail()
	}
	return !d.bad
}

// byte reads one byte.
func (d *decoder) byte() byte {
	if d.pos >= len(d.buf) {
		d.fail()
		return 0
	}
	b := d.buf[d.pos]
	d.pos++
	return b
}

// uvarint reads an unsigned number.
func (d *decoder) uvarint() uint64 {
	if d.pos < len(d.buf) && d.buf[d.pos] < 0x80 {
		d.pos++
		return uint64(d.buf[d.pos-1])
	}
	return d.longUvarint()
}

// longUvarint reads an unsigned number of two bytes or more.
func (d *decoder) longUvarint() uint64 {
	var v uint64
	rest := d.buf[d.pos:]
	for i := 0; i < len(rest) && i < 10; i++ {
		b := rest[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			d.pos += i + 1
			return v
		}
	}
	d.fail()
	return 0
}

// varint reads a signed number.
func (d *decoder) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// uint32 reads four bytes.
func (d *decoder) uint32() uint32 {
	if len(d.buf)-d.pos < 4 {
		d.fail()
		return 0
	}
	b := d.buf[d.pos : d.pos+4]
	d.pos += 4
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// uint64 reads eight bytes.
func (d *decoder) uint64() uint64 { return uint64(d.uint32()) | uint64(d.uint32())<<32 }

// bitmap reads the bitmap of a group.
func (d *decoder) bitmap(g *fieldGroup) uint64 {
	if len(d.buf)-d.pos < g.width {
		d.fail()
		return 0
	}
	var v uint64
	if s := d.buf[d.pos:]; len(s) >= 8 {
		v = uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		v &= g.bytes
	} else {
		for i := range g.width {
			v |= uint64(s[i]) << (8 * i)
		}
	}
	d.pos += g.width
	if v&^g.valid != 0 {
		d.fail()
		return 0
	}
	return v
}

// structure reads the fields of a struct into zeroed memory.
func (d *decoder) structure(s *structPlan, p unsafe.Pointer) {
	for i := range s.groups {
		g := &s.groups[i]
		for set := d.bitmap(g); set != 0; set &= set - 1 {
			f := &g.fields[bits.TrailingZeros64(set)]
			fp := unsafe.Add(p, f.offset)
			switch f.kind {
			case kindString:
				*(*string)(fp) = d.string()
			case kindBool:
				*(*bool)(fp) = true
			case kindStruct:
				d.structure(f.plan.fields, fp)
			case kindSection:
				d.base = d.pos
				d.structure(f.plan.fields, fp)
				d.base = 0
			case kindPointer:
				d.pointee(f.plan.elem, fp)
			case kindSlice:
				d.slice(f.plan, (*sliceHeader)(fp))
			default:
				d.value(f.plan, fp)
			}
		}
	}
}

// value reads what encoder.body wrote.
func (d *decoder) value(t *plan, p unsafe.Pointer) {
	switch t.kind {
	case kindBool:
		*(*bool)(p) = d.byte() != 0
	case kindInt8:
		*(*int8)(p) = int8(d.varint())
	case kindInt16:
		*(*int16)(p) = int16(d.varint())
	case kindInt32:
		*(*int32)(p) = int32(d.varint())
	case kindInt64:
		*(*int64)(p) = d.varint()
	case kindUint8:
		*(*uint8)(p) = uint8(d.uvarint())
	case kindUint16:
		*(*uint16)(p) = uint16(d.uvarint())
	case kindUint32:
		*(*uint32)(p) = uint32(d.uvarint())
	case kindUint64:
		*(*uint64)(p) = d.uvarint()
	case kindFloat32:
		*(*float32)(p) = math.Float32frombits(d.uint32())
	case kindFloat64:
		*(*float64)(p) = math.Float64frombits(d.uint64())
	case kindString:
		*(*string)(p) = d.string()
	case kindBytes:
		*(*[]byte)(p) = d.bytes()
	case kindPointer:
		d.pointee(t.elem, p)
	case kindSlice:
		d.slice(t, (*sliceHeader)(p))
	case kindArray:
		for i := range t.count {
			d.element(t.elem, unsafe.Add(p, uintptr(i)*t.elem.size))
		}
	case kindStruct:
		d.whole(t, p)
	default:
		d.composite(t, p)
	}
}

// composite is value for maps and types with a form of their own.
func (d *decoder) composite(t *plan, p unsafe.Pointer) {
	switch t.kind {
	case kindStringMap:
		*(*map[string]string)(p) = d.stringMap()
	case kindQuantityMap:
		d.quantityMap(p)
	case kindContentMap:
		v, _ := d.content().(map[string]any)
		*(*map[string]any)(p) = v
	case kindMap:
		d.anyMap(t, p)
	case kindContent:
		*(*any)(p) = d.content()
	case kindTime:
		d.time(p)
	case kindQuantity:
		d.quantity(p)
	case kindRawExtension:
		if d.byte() != 0 {
			(*runtime.RawExtension)(p).Raw = d.bytes()
		}
	case kindHandle:
		d.handle(p)
	}
}

// element reads what encoder.element wrote.
func (d *decoder) element(t *plan, p unsafe.Pointer) {
	if t.nillable() && d.byte() == 0 {
		return
	}
	d.value(t, p)
}

// whole reads a struct that is written by itself or as the number of a dictionary entry.
func (d *decoder) whole(t *plan, p unsafe.Pointer) {
	if !t.shared {
		d.structure(t.fields, p)
		return
	}
	h := d.uvarint()
	if h&1 == 0 {
		d.structure(t.fields, p)
		return
	}
	if back, ok := d.shared(h >> 1); ok {
		d.whole(t, p)
		d.leave(back)
	}
}

// place is a position at which reading continues after a dictionary entry.
type place struct {
	buf string
	pos int
}

// shared continues reading in dictionary entry id. It returns the place for leave.
func (d *decoder) shared(id uint64) (place, bool) {
	s, ok := d.view.Entry(id)
	if !ok || !d.enter() {
		d.fail()
		return place{}, false
	}
	back := place{d.buf, d.pos}
	d.buf, d.pos = s, 0
	return back, true
}

// leave continues reading at back, after the reference to an entry. It fails unless the entry was
// read to its end.
func (d *decoder) leave(back place) {
	if d.pos != len(d.buf) {
		d.bad = true
	}
	d.depth--
	d.buf, d.pos = back.buf, back.pos
	if d.bad {
		d.fail()
	}
}

// pointee allocates the value for the pointer at p, and reads it.
func (d *decoder) pointee(t *plan, p unsafe.Pointer) {
	if !d.enter() || !d.charge(int(t.size)) {
		return
	}
	to := d.newPointee(t)
	*(*unsafe.Pointer)(p) = to
	d.element(t, to)
	d.depth--
}

// newPointee allocates a zero value for a pointer.
func (d *decoder) newPointee(t *plan) unsafe.Pointer {
	if t.slab != 0 && d.slabs != nil {
		if to := d.slabs.take(t, 1); to != nil {
			return to
		}
	}
	switch {
	case t.noscan && t.size <= carveLimit:
		return d.carve(t.size, uintptr(t.align))
	case t.kind == kindString:
		return unsafe.Pointer(&d.stringHeaders(1)[0])
	default:
		return t.allocate(1)
	}
}

// slice allocates and reads a slice.
func (d *decoder) slice(t *plan, s *sliceHeader) {
	h := d.uvarint()
	if h&1 != 0 {
		if back, ok := d.shared(h >> 1); ok {
			d.slice(t, s)
			d.leave(back)
		}
		return
	}
	if n := d.makeSlice(t, s, h); n > 0 {
		d.elements(t.elem, s.data, n)
		d.depth--
	}
}

// makeSlice allocates the slice that h announces, goes a level deeper and returns the number of
// elements. If there are no elements, or if it fails, it returns zero and does not change the
// level.
func (d *decoder) makeSlice(t *plan, s *sliceHeader, h uint64) int {
	n := int(h >> 1)
	if n == 0 {
		s.data = unsafe.Pointer(&nothing)
		return 0
	}
	// Every element takes at least a byte.
	if uint64(n) > uint64(len(d.buf)-d.pos) || !d.charge(n*int(t.elem.size)) || !d.enter() {
		d.fail()
		return 0
	}
	d.allocate(t, s, n)
	return n
}

// allocate makes s a slice of n zero elements.
func (d *decoder) allocate(t *plan, s *sliceHeader, n int) {
	size := uintptr(n) * t.elem.size
	switch {
	case t.elem.kind == kindString:
		s.data = unsafe.Pointer(unsafe.SliceData(d.stringHeaders(n)))
	case t.elem.noscan && size <= carveLimit:
		s.data = d.carve(size, uintptr(t.elem.align))
	default:
		if t.elem.slab != 0 && d.slabs != nil {
			if s.data = d.slabs.take(t.elem, n); s.data != nil {
				break
			}
		}
		s.data = t.elem.allocate(n)
	}
	s.len, s.cap = n, n
}

// elements reads n elements into zeroed memory.
func (d *decoder) elements(t *plan, p unsafe.Pointer, n int) {
	for i := 0; i < n && !d.bad; i++ {
		at := unsafe.Add(p, uintptr(i)*t.size)
		switch t.kind {
		case kindString:
			*(*string)(at) = d.string()
		case kindStruct:
			d.whole(t, at)
		default:
			d.element(t, at)
		}
	}
}

// carve returns size zeroed bytes for a pointer-free value.
func (d *decoder) carve(size, align uintptr) unsafe.Pointer {
	at := (d.carvedO + align - 1) &^ (align - 1)
	if d.carved == nil || at+size > d.carvedN {
		// The first need takes the chunk that the encoder measured, or some of it. Corrupt bytes
		// may have measured too little: then each value gets memory of its own.
		d.carvedN = max(min(d.want, carveChunk), size)
		d.want -= min(d.want, d.carvedN)
		words := make([]uint64, (d.carvedN+7)/8+1)
		d.carved = unsafe.Pointer(unsafe.SliceData(words))
		at = 0
	}
	d.carvedO = at + size
	return unsafe.Add(d.carved, at)
}

// stringHeaders returns n empty strings that are used nowhere else.
func (d *decoder) stringHeaders(n int) []string {
	if len(d.strs) < n {
		size := d.wantStr
		if d.annex.Parts != nil {
			size = min(size, boxedTogether)
		}
		d.strs = make([]string, max(n, size))
	}
	d.wantStr -= n
	out := d.strs[:n:n]
	d.strs = d.strs[n:]
	return out
}
