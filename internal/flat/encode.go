// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"reflect"
	"strings"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

const (
	// shortString is the length in bytes below which a string always stands inline: a number would
	// hardly be shorter.
	shortString = 3
	// shortShared is the encoded length in bytes below which a value does not enter the dictionary.
	shortShared = 6
)

const (
	// maxDepth is the number of levels after which an object is refused. An object that contains
	// itself is refused by it.
	maxDepth = 1000
	// carveLimit is the size in bytes up to which a pointer-free value is carved from the chunk
	// that a decoder allocates. A larger value gets memory of its own, so that it does not keep
	// others alive.
	carveLimit = 4 << 10
	// carveChunk is the size in bytes of the chunks of a larger object.
	carveChunk = 2 * carveLimit
	// largestChunk (bytes) and largestHeaders (strings) bound what a decoder allocates at once. It
	// allocates the rest when it needs it.
	largestChunk   = 1 << 20
	largestHeaders = 1 << 16
)

// longestHeader is the size in bytes of the longest header without a table of sections.
const longestHeader = headerSize + 2*binary.MaxVarintLen64 + 2*slabKinds + 1

// encoder writes one object at a time. A codec reuses its encoders, with their buffers.
type encoder struct {
	writer
	root *root
}

// writer writes the numbers and strings of one object.
type writer struct {
	destination
	typ reflect.Type // of the object
	buf []byte

	// private counts the parts of the object that no other object is expected to have: strings that
	// are not in the dictionary, references to them, and times. A value without such parts may
	// enter the dictionary as a whole. Times count because a search of the dictionary for values
	// with times costs more than the few hits save.
	private int
	depth   int
	err     error
	needs   needs
	inlined *inlined
	split   *splitter
	pairs   *pairStack
}

// seed returns the seed of hashes that are used within this process only.
var seed = sync.OnceValue(maphash.MakeSeed)

// destination is the dictionary that an object is encoded with, and the identity of the object that
// the dictionary is told.
type destination struct {
	dict  *dictionary.Dictionary // may be nil
	seed  maphash.Seed
	owner uint32 // hash of the object's identity
}

// needs adds up the memory that a decoder of the object will need.
type needs struct {
	noscan  uintptr // bytes to carve pointer-free values from
	strings int     // string headers other than those in structs and maps
	charged int     // bytes that the reader will account for, see its method charge
	slabs   slabCounts
}

// newEncoder returns an encoder for the objects of r.
func newEncoder(r *root) *encoder {
	return &encoder{writer{typ: r.typ, inlined: &inlined{}, split: &splitter{}, pairs: &pairStack{}}, r}
}

// object encodes obj, a non-nil pointer to a struct of the root's type.
func (e *encoder) object(obj any, dict *dictionary.Dictionary) (Object, error) {
	p, err := e.root.memory(obj)
	if err != nil {
		return Object{}, err
	}
	e.reset(dict)
	if e.root.flags&flagContent != 0 {
		u := (*unstructured.Unstructured)(p)
		e.owner = e.contentOwner(u)
		e.contentHead(u)
		e.document(u.Object)
	} else {
		if e.root.flags&flagMetadata != 0 {
			meta := unsafe.Add(p, e.root.meta)
			e.owner = e.metadataOwner(meta)
			e.structure(metadataPlan(), meta)
		}
		e.structure(e.root.fields, p)
	}
	return e.finish(dict, nil)
}

// finish returns the object that was written, with a table of its sections if that is not empty.
func (e *encoder) finish(dict *dictionary.Dictionary, table []byte) (Object, error) {
	data, parts := e.result(table)
	e.dict, e.split.parts = nil, nil
	if e.err != nil {
		return Object{}, e.err
	}
	if dict != nil {
		dict.Encoded()
	}
	return newObject(data, dict, parts), nil
}

// reset prepares for the next object.
func (w *writer) reset(dict *dictionary.Dictionary) {
	w.dict, w.owner = dict, 0
	w.buf = w.buf[:0]
	w.private, w.needs.noscan, w.needs.strings, w.needs.charged, w.depth, w.err = 0, 0, 0, 0, 0, nil
	w.seed = seed()
	if dict != nil {
		w.seed = dict.Seed()
	}
	w.inlined.reset()
	w.needs.slabs.reset()
	w.pairs.reset()
	w.split.reset()
}

// result puts the header before the bytes that were written and returns both as immutable bytes,
// together with the parts of a large object. An object with a table of sections has no parts.
func (e *encoder) result(table []byte) (data string, parts []string) {
	if e.needs.charged > leastBudget {
		e.refuse("it takes too much memory")
	}
	if e.err != nil {
		return "", nil
	}
	end := e.slabBlock()
	var room [longestHeader]byte
	head := append(room[:0], e.root.flags, e.root.fingerprint)
	head = binary.AppendUvarint(head, uint64(min(e.needs.noscan, largestChunk)))
	head = binary.AppendUvarint(head, uint64(min(e.needs.strings, largestHeaders)))
	head = append(head, e.buf[end:]...)
	if len(table) > 0 {
		head[0] |= flagSections
		head = append(binary.AppendUvarint(head, uint64(len(table))), table...)
	}
	e.buf = e.buf[:end]
	if e.split.parts != nil || len(head)+end > pinLimit {
		e.buf = e.split.split(e.buf)
	}
	var b strings.Builder
	b.Grow(len(head) + len(e.buf))
	b.Write(head)
	b.Write(e.buf)
	if cap(e.buf) > 1<<20 {
		e.buf = nil // one huge object must not make a pooled buffer huge
	}
	return b.String(), e.split.take()
}

// refuse notes the first reason why this object cannot be encoded.
func (w *writer) refuse(reason string) {
	if w.err == nil {
		w.err = &ValueError{Type: w.typ, Reason: reason}
	}
}

// enter goes one level deeper. It returns false, and refuses the object, when the level is too
// deep.
func (w *writer) enter() bool {
	w.depth++
	if w.depth <= maxDepth {
		return true
	}
	w.refuse("it is nested too deep or contains itself")
	return false
}

// uvarint writes an unsigned number.
func (w *writer) uvarint(v uint64) {
	if v < 0x80 {
		w.buf = append(w.buf, byte(v))
		return
	}
	w.buf = binary.AppendUvarint(w.buf, v)
}

// varint writes a signed number.
func (w *writer) varint(v int64) { w.uvarint(uint64(v<<1) ^ uint64(v>>63)) }

// carve counts memory that the decoder will carve for a pointer-free value.
func (n *needs) carve(size, align uintptr) {
	if size <= carveLimit {
		n.noscan = (n.noscan+align-1)&^(align-1) + size
	}
}

// structure writes the fields of a struct. It says whether a field is not zero.
func (e *encoder) structure(s *structPlan, p unsafe.Pointer) bool {
	if !e.enter() {
		return false
	}
	found := false
	for i := range s.groups {
		g := &s.groups[i]
		at := len(e.buf)
		e.buf = append(e.buf, zeros[:g.width]...)
		bits := e.group(g, p)
		for b := range g.width {
			e.buf[at+b] = byte(bits >> (8 * b))
		}
		found = found || bits != 0
	}
	e.depth--
	return found
}

// zeros is room for a bitmap.
var zeros [8]byte

// group writes those fields of a group that are not zero, and returns their bitmap.
func (e *encoder) group(g *fieldGroup, p unsafe.Pointer) (bits uint64) {
	for i := range g.fields {
		f := &g.fields[i]
		if f.wide && *(*uint64)(unsafe.Add(p, f.probe)) == 0 {
			continue
		}
		fp := unsafe.Add(p, f.offset)
		switch {
		case f.kind == kindString && f.wide:
			e.string(*(*string)(fp))
		case f.kind == kindStruct:
			at := len(e.buf)
			if !e.structure(f.plan.fields, fp) {
				e.buf = e.buf[:at]
				continue
			}
		case f.kind == kindSection:
			if !e.section(f, fp) {
				continue
			}
		case f.wide:
			e.body(f.plan, fp)
		default:
			if zero(f.plan, fp) {
				continue
			}
			if f.kind != kindBool { // the bit says it all
				e.body(f.plan, fp)
			}
		}
		bits |= 1 << i
	}
	return bits
}

// zero says whether the value at p is the zero value of its type.
func zero(t *plan, p unsafe.Pointer) bool {
	switch t.kind {
	case kindString:
		return len(*(*string)(p)) == 0
	case kindPointer, kindSlice, kindBytes, kindStringMap, kindQuantityMap, kindContentMap, kindMap, kindHandle:
		return *(*unsafe.Pointer)(p) == nil
	case kindInt8, kindUint8, kindBool:
		return *(*uint8)(p) == 0
	case kindInt16, kindUint16:
		return *(*uint16)(p) == 0
	case kindInt32, kindUint32, kindFloat32: // by its bits, so that a negative zero stays
		return *(*uint32)(p) == 0
	case kindInt64, kindUint64, kindFloat64:
		return *(*uint64)(p) == 0
	case kindTime:
		return *(*timeMemory)(p) == timeMemory{}
	case kindQuantity:
		return *(*quantityMemory)(p) == quantityMemory{}
	case kindRawExtension:
		r := (*runtime.RawExtension)(p)
		return r.Raw == nil && r.Object == nil
	case kindContent:
		return *(*any)(p) == nil
	default:
		return false
	}
}

// body writes a value of which the caller knows that it is not nil.
func (e *encoder) body(t *plan, p unsafe.Pointer) {
	switch t.kind {
	case kindBool:
		e.buf = append(e.buf, *(*byte)(p))
	case kindInt8:
		e.varint(int64(*(*int8)(p)))
	case kindInt16:
		e.varint(int64(*(*int16)(p)))
	case kindInt32:
		e.varint(int64(*(*int32)(p)))
	case kindInt64:
		e.varint(*(*int64)(p))
	case kindUint8:
		e.uvarint(uint64(*(*uint8)(p)))
	case kindUint16:
		e.uvarint(uint64(*(*uint16)(p)))
	case kindUint32:
		e.uvarint(uint64(*(*uint32)(p)))
	case kindUint64:
		e.uvarint(*(*uint64)(p))
	case kindFloat32:
		e.buf = binary.LittleEndian.AppendUint32(e.buf, math.Float32bits(*(*float32)(p)))
	case kindFloat64:
		e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(*(*float64)(p)))
	case kindString:
		e.string(*(*string)(p))
	case kindBytes:
		e.bytes(*(*[]byte)(p))
	case kindPointer:
		e.pointee(t.elem, *(*unsafe.Pointer)(p))
	case kindSlice:
		e.slice(t.elem, (*sliceHeader)(p))
	case kindArray:
		for i := range t.count {
			e.element(t.elem, unsafe.Add(p, uintptr(i)*t.elem.size))
		}
	case kindStruct:
		e.whole(t, p)
	default:
		e.composite(t, p)
	}
}

// composite is body for maps and types with a form of their own.
func (e *encoder) composite(t *plan, p unsafe.Pointer) {
	switch t.kind {
	case kindStringMap:
		e.stringMap(*(*map[string]string)(p))
	case kindQuantityMap:
		e.quantityMap(t, p)
	case kindContentMap:
		e.contentMap(*(*map[string]any)(p))
	case kindMap:
		e.anyMap(t, p)
	case kindContent:
		e.content(*(*any)(p))
	case kindTime:
		e.time(p)
	case kindQuantity:
		e.quantity(p)
	case kindRawExtension:
		e.rawExtension((*runtime.RawExtension)(p))
	case kindHandle:
		e.handle(p)
	}
}

// element writes a value that may be nil, in a slice, an array, a map or behind a pointer.
func (e *encoder) element(t *plan, p unsafe.Pointer) {
	if t.nillable() {
		if *(*unsafe.Pointer)(p) == nil {
			e.buf = append(e.buf, 0)
			return
		}
		e.buf = append(e.buf, 1)
	}
	e.body(t, p)
}

// whole writes a struct by itself or, if it is in the dictionary, as the number of its entry.
func (e *encoder) whole(t *plan, p unsafe.Pointer) {
	if !t.shared {
		e.structure(t.fields, p)
		return
	}
	at, before := len(e.buf), e.private
	e.buf = append(e.buf, 0)
	e.structure(t.fields, p)
	e.share(at, before)
}

// pointee writes what a pointer points to.
func (e *encoder) pointee(t *plan, p unsafe.Pointer) {
	if !e.enter() {
		return
	}
	e.needs.pointee(t)
	e.element(t, p)
	e.depth--
}

// needPointee counts the memory of what a pointer points to.
func (n *needs) pointee(t *plan) {
	n.charged += int(t.size)
	switch {
	case t.noscan:
		n.carve(t.size, uintptr(t.align))
	case t.slab != 0:
		n.slabs.add(t, 1)
	case t.kind == kindString:
		n.strings++
	}
}

// slice writes the elements of a slice that is not nil.
func (e *encoder) slice(t *plan, s *sliceHeader) {
	if !e.enter() {
		return
	}
	at, before := len(e.buf), e.private
	e.uvarint(uint64(s.len) << 1)
	e.needs.slice(t, s.len)
	for i := range s.len {
		e.element(t, unsafe.Add(s.data, uintptr(i)*t.size))
	}
	e.share(at, before)
	e.depth--
}

// needSlice counts the memory of n elements of a slice.
func (n *needs) slice(t *plan, count int) {
	n.charged += count * int(t.size)
	switch {
	case t.kind == kindString:
		n.strings += count
	case t.noscan && count > 0:
		n.carve(t.size*uintptr(count), uintptr(t.align))
	case t.slab != 0:
		n.slabs.add(t, count)
	}
}

// share replaces the bytes from position at by the number of a dictionary entry, if other objects
// have the same bytes. It does nothing if these bytes contain a part that is private to this
// object: before is the count of private parts at that position. Every shared form starts with a
// number: its lowest bit is zero if the value follows, and one if it is the number of a dictionary
// entry.
func (w *writer) share(at, before int) {
	if w.dict == nil || w.private != before || len(w.buf)-at < shortShared {
		return
	}
	b := stringOf(w.buf[at:])
	if id, ok := w.dict.Intern(w.dict.Hash(b), w.owner, b); ok {
		w.buf = w.buf[:at]
		w.uvarint(uint64(id)<<1 | 1)
	}
}

// rawExtension writes the raw bytes. It refuses an extension that also holds a decoded object.
func (w *writer) rawExtension(r *runtime.RawExtension) {
	if r.Object != nil {
		w.refuse("a RawExtension with a decoded Object")
		return
	}
	if r.Raw == nil {
		w.buf = append(w.buf, 0)
		return
	}
	w.buf = append(w.buf, 1)
	w.bytes(r.Raw)
}
