// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// reader reads the numbers and strings of one Object. After a failure it stands at the end of its
// bytes and reads zeros, so every loop ends soon. The method finish reports the failure.
type reader struct {
	head header
	buf  string          // the bytes that are being read: body, or a dictionary entry
	pos  int             // the next byte of buf
	view dictionary.View // the entries of the dictionary
	body string          // the object without its header
	base int             // where in body the section begins that is being read, if one is
	// annex is the annex of the object, never nil. The position in a string reference counts from
	// the start of the parts, or from the start of the body if there are no parts.
	annex  *annex
	depth  int
	budget int // bytes that may still be allocated: bounds what corrupt bytes can ask for
	bad    bool
}

// header is what an object says before its body.
type header struct {
	flags       byte
	fingerprint byte   // of the type
	noscan      int    // bytes of the pointer-free values
	strings     int    // string headers
	counts      string // of slabs
	table       string // of sections, see section.go; empty for most objects
}

// decoder reads one Object into Go values.
type decoder struct {
	reader
	memory memory
	comparison
}

// memory is the source of the memory for decoded values. The header of an object says how much it
// needs, so that small values are allocated together.
type memory struct {
	chunk   unsafe.Pointer // that pointer-free values are carved from
	size    uintptr        // bytes of the chunk
	taken   uintptr        // bytes of the chunk that are taken
	strings []string       // string headers not yet handed out

	want        uintptr    // bytes of the chunk when it is first needed
	wantStrings int        // number of string headers when they are first needed
	large       bool       // the object is large: few headers share an allocation
	slabs       *slabTable // nil to allocate singly
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
func (r *reader) open(o Object) bool {
	if len(o.data) < headerSize {
		return false
	}
	r.head.flags, r.head.fingerprint = o.data[0]&^flagSections, o.data[1]
	r.buf, r.pos = o.data, headerSize
	r.annex = &noAnnex
	if o.annex != nil {
		r.annex, r.view = o.annex, o.annex.Dict.View()
	}
	noscan, strs := r.uvarint(), r.uvarint()
	r.skipSlabs()
	if o.data[0]&flagSections != 0 {
		r.openTable()
	}
	if r.bad {
		return false
	}
	r.budget = leastBudget
	r.body = o.data[r.pos:]
	r.buf, r.pos = r.body, 0
	if noscan > largestChunk || strs > largestHeaders {
		return false
	}
	r.head.noscan, r.head.strings = int(noscan), int(strs)
	return true
}

// is says whether the header is that of an object of the type of t.
func (h *header) is(t *root) bool { return h.flags == t.flags && h.fingerprint == t.fingerprint }

// open starts reading o, and expects to allocate each value when it is needed.
func (d *decoder) open(o Object) bool {
	if !d.reader.open(o) {
		return false
	}
	d.memory.large = d.annex.Parts != nil
	return true
}

// decode overwrites into, a non-nil pointer to a struct of the root's type, with the object of o.
// Values stand in slabs or singly. The error is ErrWrongType or ErrCorrupt.
func decode(t *root, o Object, into any, inSlabs bool) error {
	p, err := t.memory(into)
	if err != nil {
		return err
	}
	var d decoder
	if !d.open(o) || !d.head.is(t) {
		return wrong(t, o)
	}
	d.memory.expect(&d.head)
	if t.flags&flagContent != 0 {
		u := (*unstructured.Unstructured)(p)
		u.Object = nil
		d.skipHead()
		d.document(&u.Object)
		return d.finish()
	}
	var slabs slabTable
	if inSlabs {
		slabs.fill(d.head.counts)
		d.memory.slabs = &slabs
	}
	reflect.ValueOf(into).Elem().SetZero()
	if t.flags&flagMetadata != 0 {
		d.structure(metadataPlan(), unsafe.Add(p, t.meta))
	}
	d.structure(t.fields, p)
	return d.finish()
}

// wrong returns the error for an Object that does not fit to t: ErrWrongType, or ErrCorrupt if its
// header is incomplete.
func wrong(t *root, o Object) error {
	if len(o.data) < headerSize {
		return ErrCorrupt
	}
	return fmt.Errorf("%w: the object is not a flat %v", ErrWrongType, t.typ)
}

// fail notes that the bytes are corrupt.
func (r *reader) fail() {
	r.bad = true
	r.pos = len(r.buf)
}

// finish returns ErrCorrupt if reading failed or bytes are left over.
func (r *reader) finish() error {
	if r.bad || r.pos != len(r.buf) {
		return ErrCorrupt
	}
	return nil
}

// enter goes one level deeper. It fails when the level is too deep.
func (r *reader) enter() bool {
	r.depth++
	if r.depth > 4*maxDepth { // one level of the encoder is up to four levels here
		r.fail()
	}
	return !r.bad
}

// charge subtracts an allocation of n bytes from the budget. It fails when the budget is used up.
func (r *reader) charge(n int) bool {
	r.budget -= n
	if r.budget < 0 {
		r.fail()
	}
	return !r.bad
}

// byte reads one byte.
func (r *reader) byte() byte {
	if r.pos >= len(r.buf) {
		r.fail()
		return 0
	}
	b := r.buf[r.pos]
	r.pos++
	return b
}

// uvarint reads an unsigned number.
func (r *reader) uvarint() uint64 {
	if r.pos < len(r.buf) && r.buf[r.pos] < 0x80 {
		r.pos++
		return uint64(r.buf[r.pos-1])
	}
	return r.longUvarint()
}

// longUvarint reads an unsigned number of two bytes or more.
func (r *reader) longUvarint() uint64 {
	var v uint64
	rest := r.buf[r.pos:]
	for i := 0; i < len(rest) && i < 10; i++ {
		b := rest[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			r.pos += i + 1
			return v
		}
	}
	r.fail()
	return 0
}

// varint reads a signed number.
func (r *reader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// uint32 reads four bytes.
func (r *reader) uint32() uint32 {
	if len(r.buf)-r.pos < 4 {
		r.fail()
		return 0
	}
	b := r.buf[r.pos : r.pos+4]
	r.pos += 4
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// uint64 reads eight bytes.
func (r *reader) uint64() uint64 { return uint64(r.uint32()) | uint64(r.uint32())<<32 }

// bitmap reads the bitmap of a group.
func (r *reader) bitmap(g *fieldGroup) uint64 {
	if len(r.buf)-r.pos < g.width {
		r.fail()
		return 0
	}
	var v uint64
	if s := r.buf[r.pos:]; len(s) >= 8 {
		v = uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		v &= g.bytes
	} else {
		for i := range g.width {
			v |= uint64(s[i]) << (8 * i)
		}
	}
	r.pos += g.width
	if v&^g.valid != 0 {
		r.fail()
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
func (r *reader) shared(id uint64) (place, bool) {
	s, ok := r.view.Entry(id)
	if !ok || !r.enter() {
		r.fail()
		return place{}, false
	}
	back := place{r.buf, r.pos}
	r.buf, r.pos = s, 0
	return back, true
}

// leave continues reading at back, after the reference to an entry. It fails unless the entry was
// read to its end.
func (r *reader) leave(back place) {
	if r.pos != len(r.buf) {
		r.bad = true
	}
	r.depth--
	r.buf, r.pos = back.buf, back.pos
	if r.bad {
		r.fail()
	}
}

// pointee allocates the value for the pointer at p, and reads it.
func (d *decoder) pointee(t *plan, p unsafe.Pointer) {
	if !d.enter() || !d.charge(int(t.size)) {
		return
	}
	to := d.memory.newPointee(t)
	*(*unsafe.Pointer)(p) = to
	d.element(t, to)
	d.depth--
}

// newPointee allocates a zero value for a pointer.
func (m *memory) newPointee(t *plan) unsafe.Pointer {
	if t.slab != 0 && m.slabs != nil {
		if to := m.slabs.take(t, 1); to != nil {
			return to
		}
	}
	switch {
	case t.noscan && t.size <= carveLimit:
		return m.carve(t.size, uintptr(t.align))
	case t.kind == kindString:
		return unsafe.Pointer(&m.stringHeaders(1)[0])
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
	d.memory.allocate(t, s, n)
	return n
}

// allocate makes s a slice of n zero elements.
func (m *memory) allocate(t *plan, s *sliceHeader, n int) {
	size := uintptr(n) * t.elem.size
	switch {
	case t.elem.kind == kindString:
		s.data = unsafe.Pointer(unsafe.SliceData(m.stringHeaders(n)))
	case t.elem.noscan && size <= carveLimit:
		s.data = m.carve(size, uintptr(t.elem.align))
	default:
		if t.elem.slab != 0 && m.slabs != nil {
			if s.data = m.slabs.take(t.elem, n); s.data != nil {
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

// expect prepares for the memory that the header of an object announces.
func (m *memory) expect(h *header) { m.want, m.wantStrings = uintptr(h.noscan), h.strings }

// carve returns size zeroed bytes for a pointer-free value.
func (m *memory) carve(size, align uintptr) unsafe.Pointer {
	at := (m.taken + align - 1) &^ (align - 1)
	if m.chunk == nil || at+size > m.size {
		// The first need takes the chunk that the encoder measured, or some of it. Corrupt bytes
		// may have measured too little: then each value gets memory of its own.
		m.size = max(min(m.want, carveChunk), size)
		m.want -= min(m.want, m.size)
		words := make([]uint64, (m.size+7)/8+1)
		m.chunk = unsafe.Pointer(unsafe.SliceData(words))
		at = 0
	}
	m.taken = at + size
	return unsafe.Add(m.chunk, at)
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
