// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"cmp"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat/decode"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// Encoder writes one object at a time. It is used again for the next, with its buffers.
type Encoder struct {
	writer
	root *plan.Root
}

// New returns an encoder for the objects of r.
func New(r *plan.Root) *Encoder {
	return &Encoder{writer{inlined: &inlined{}, split: &splitter{}, pairs: &pairStack{}}, r}
}

// Encode returns the flat form of obj, a non-nil pointer to a struct of the root's type, with a
// dictionary, which may be nil. The error is plan.ErrWrongType or a *ValueError.
func (e *Encoder) Encode(obj any, dict *dictionary.Dictionary) (decode.Object, error) {
	p, err := e.root.Memory(obj)
	if err != nil {
		return decode.Object{}, err
	}
	e.reset(dict)
	if e.root.IsContent() {
		u := (*unstructured.Unstructured)(p)
		e.owner = e.contentOwner(u)
		e.contentHead(u)
		e.document(u.Object)
	} else {
		if e.root.HasMetadata() {
			meta := unsafe.Add(p, e.root.Meta)
			e.owner = e.metadataOwner(meta)
			e.structure(plan.Metadata(), meta)
		}
		e.structure(e.root.Fields, p)
	}
	return e.finish(dict, nil)
}

// finish returns the object that was written, with a table of its sections if that is not empty.
func (e *Encoder) finish(dict *dictionary.Dictionary, table []byte) (decode.Object, error) {
	data, parts := e.result(table)
	e.dict, e.split.parts = nil, nil
	if e.err != nil {
		if value, ok := e.err.(*ValueError); ok {
			value.Type = e.root.Type
		}
		return decode.Object{}, e.err
	}
	if dict != nil {
		dict.Encoded()
	}
	return decode.NewObject(data, dict, parts), nil
}

// result puts the header before the bytes that were written and returns both as immutable bytes,
// together with the parts of a large object. An object with a table of sections has no parts.
func (e *Encoder) result(table []byte) (data string, parts []string) {
	if e.needs.charged > form.LeastBudget {
		e.refuse("it takes too much memory")
	}
	if e.err != nil {
		return "", nil
	}
	end := e.slabBlock()
	var room [longestHeader]byte
	head := append(room[:0], e.root.Flags, e.root.Fingerprint)
	head = binary.AppendUvarint(head, uint64(min(e.needs.noscan, form.LargestChunk)))
	head = binary.AppendUvarint(head, uint64(min(e.needs.strings, form.LargestHeaders)))
	head = append(head, e.buf[end:]...)
	if len(table) > 0 {
		head[0] |= form.FlagSections
		head = append(binary.AppendUvarint(head, uint64(len(table))), table...)
	}
	e.buf = e.buf[:end]
	if e.split.parts != nil || len(head)+end > form.PinLimit {
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

// structure writes the fields of a struct. It says whether a field is not zero.
func (e *Encoder) structure(s *plan.Struct, p unsafe.Pointer) bool {
	if !e.enter() {
		return false
	}
	found := false
	for i := range s.Groups {
		g := &s.Groups[i]
		at := len(e.buf)
		e.buf = append(e.buf, zeros[:g.Width]...)
		bits := e.group(g, p)
		for b := range g.Width {
			e.buf[at+b] = byte(bits >> (8 * b))
		}
		found = found || bits != 0
	}
	e.depth--
	return found
}

// group writes those fields of a group that are not zero, and returns their bitmap.
func (e *Encoder) group(g *plan.Group, p unsafe.Pointer) (bits uint64) {
	for i := range g.Fields {
		f := &g.Fields[i]
		fp := unsafe.Add(p, f.Offset)
		if f.Wide && *(*uint64)(unsafe.Add(fp, f.Probe)) == 0 {
			continue
		}
		switch {
		case f.Kind == plan.KindString && f.Wide:
			e.string(*(*string)(fp))
		case f.Kind == plan.KindStruct:
			at := len(e.buf)
			if !e.structure(f.Plan.Fields, fp) {
				e.buf = e.buf[:at]
				continue
			}
		case f.Kind == plan.KindSection:
			if !e.section(f, fp) {
				continue
			}
		case f.Wide:
			e.body(f.Plan, fp)
		default:
			if zero(f.Plan, fp) {
				continue
			}
			if f.Kind != plan.KindBool { // the bit says it all
				e.body(f.Plan, fp)
			}
		}
		bits |= 1 << i
	}
	return bits
}

// zero says whether the value at p is the zero value of its type.
func zero(t *plan.Plan, p unsafe.Pointer) bool {
	switch t.Kind {
	case plan.KindString:
		return len(*(*string)(p)) == 0
	case plan.KindPointer, plan.KindSlice, plan.KindBytes, plan.KindStringMap, plan.KindQuantityMap, plan.KindContentMap, plan.KindMap, plan.KindHandle:
		return *(*unsafe.Pointer)(p) == nil
	case plan.KindInt8, plan.KindUint8, plan.KindBool:
		return *(*uint8)(p) == 0
	case plan.KindInt16, plan.KindUint16:
		return *(*uint16)(p) == 0
	case plan.KindInt32, plan.KindUint32, plan.KindFloat32: // by its bits, so that a negative zero stays
		return *(*uint32)(p) == 0
	case plan.KindInt64, plan.KindUint64, plan.KindFloat64:
		return *(*uint64)(p) == 0
	case plan.KindTime:
		return *(*plan.TimeMemory)(p) == plan.TimeMemory{}
	case plan.KindQuantity:
		return *(*plan.QuantityMemory)(p) == plan.QuantityMemory{}
	case plan.KindRawExtension:
		r := (*runtime.RawExtension)(p)
		return r.Raw == nil && r.Object == nil
	case plan.KindContent:
		return *(*any)(p) == nil
	default:
		return false
	}
}

// body writes a value that is not nil.
func (e *Encoder) body(t *plan.Plan, p unsafe.Pointer) {
	switch t.Kind {
	case plan.KindBool:
		e.buf = append(e.buf, *(*byte)(p))
	case plan.KindInt8:
		e.varint(int64(*(*int8)(p)))
	case plan.KindInt16:
		e.varint(int64(*(*int16)(p)))
	case plan.KindInt32:
		e.varint(int64(*(*int32)(p)))
	case plan.KindInt64:
		e.varint(*(*int64)(p))
	case plan.KindUint8:
		e.uvarint(uint64(*(*uint8)(p)))
	case plan.KindUint16:
		e.uvarint(uint64(*(*uint16)(p)))
	case plan.KindUint32:
		e.uvarint(uint64(*(*uint32)(p)))
	case plan.KindUint64:
		e.uvarint(*(*uint64)(p))
	case plan.KindFloat32:
		e.buf = binary.LittleEndian.AppendUint32(e.buf, math.Float32bits(*(*float32)(p)))
	case plan.KindFloat64:
		e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(*(*float64)(p)))
	case plan.KindString:
		e.string(*(*string)(p))
	case plan.KindBytes:
		e.bytes(*(*[]byte)(p))
	case plan.KindPointer:
		e.pointee(t.Elem, *(*unsafe.Pointer)(p))
	case plan.KindSlice:
		e.slice(t.Elem, (*plan.SliceHeader)(p))
	case plan.KindArray:
		for i := range t.Count {
			e.element(t.Elem, unsafe.Add(p, uintptr(i)*t.Elem.Size))
		}
	case plan.KindStruct:
		e.whole(t, p)
	default:
		e.composite(t, p)
	}
}

// composite is body for maps and types with a form of their own.
func (e *Encoder) composite(t *plan.Plan, p unsafe.Pointer) {
	switch t.Kind {
	case plan.KindStringMap:
		e.stringMap(*(*map[string]string)(p))
	case plan.KindQuantityMap:
		e.quantityMap(t, p)
	case plan.KindContentMap:
		e.contentMap(*(*map[string]any)(p))
	case plan.KindMap:
		e.anyMap(t, p)
	case plan.KindContent:
		e.content(*(*any)(p))
	case plan.KindTime:
		e.time(p)
	case plan.KindQuantity:
		e.quantity(p)
	case plan.KindRawExtension:
		e.rawExtension((*runtime.RawExtension)(p))
	case plan.KindHandle:
		e.handle(p)
	}
}

// element writes a value that may be nil, in a slice, an array, a map or behind a pointer.
func (e *Encoder) element(t *plan.Plan, p unsafe.Pointer) {
	if t.Nillable() {
		if *(*unsafe.Pointer)(p) == nil {
			e.buf = append(e.buf, 0)
			return
		}
		e.buf = append(e.buf, 1)
	}
	e.body(t, p)
}

// whole writes a struct by itself or, if it is in the dictionary, as the number of its entry.
func (e *Encoder) whole(t *plan.Plan, p unsafe.Pointer) {
	if !t.Shared {
		e.structure(t.Fields, p)
		return
	}
	at, before := len(e.buf), e.private
	e.buf = append(e.buf, 0)
	e.structure(t.Fields, p)
	e.share(at, before)
}

// pointee writes what a pointer points to.
func (e *Encoder) pointee(t *plan.Plan, p unsafe.Pointer) {
	if !e.enter() {
		return
	}
	e.needs.pointee(t)
	e.element(t, p)
	e.depth--
}

// slice writes the elements of a slice that is not nil.
func (e *Encoder) slice(t *plan.Plan, s *plan.SliceHeader) {
	if !e.enter() {
		return
	}
	at, before := len(e.buf), e.private
	e.uvarint(uint64(s.Len) << 1)
	e.needs.slice(t, s.Len)
	for i := range s.Len {
		e.element(t, unsafe.Add(s.Data, uintptr(i)*t.Size))
	}
	e.share(at, before)
	e.depth--
}

// anyMap writes a map of any other type by reflection.
func (e *Encoder) anyMap(t *plan.Plan, p unsafe.Pointer) {
	if !e.enter() {
		return
	}
	start, before := len(e.buf), e.private
	m := reflect.NewAt(t.Type, p).Elem()
	keys := m.MapKeys()
	slices.SortFunc(keys, compareKeys)
	e.uvarint(uint64(len(keys)) << 1)
	e.needs.charged += len(keys) * t.PairSize()
	key, value := reflect.New(t.Key.Type), reflect.New(t.Elem.Type)
	for _, k := range keys {
		key.Elem().Set(k)
		value.Elem().Set(m.MapIndex(k))
		e.body(t.Key, key.UnsafePointer())
		e.element(t.Elem, value.UnsafePointer())
	}
	e.share(start, before)
	e.depth--
}

// compareKeys compares map keys of the kinds that the compiler accepts.
func compareKeys(a, b reflect.Value) int {
	switch {
	case a.Kind() == reflect.String:
		return strings.Compare(a.String(), b.String())
	case a.Kind() == reflect.Bool:
		return boolRank(a) - boolRank(b)
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	default:
		return cmp.Compare(a.Uint(), b.Uint())
	}
}

// boolRank orders false before true.
func boolRank(v reflect.Value) int {
	if v.Bool() {
		return 1
	}
	return 0
}

// section writes a section, unless it is zero, and says whether it is not.
func (e *Encoder) section(f *plan.Field, p unsafe.Pointer) bool {
	at := len(e.buf)
	outer := e.inlined.enter(at)
	found := e.structure(f.Plan.Fields, p)
	e.inlined.scope = outer
	if !found {
		e.buf = e.buf[:at]
	}
	return found
}

// slabBlock writes the counts behind the object, and returns their position. As an entry of the dictionary, they have all types.
// Otherwise they have those that are taken several times: a single value is allocated as well without a count.
func (w *writer) slabBlock() int {
	at := len(w.buf)
	w.counts(1)
	if !w.share(at, w.private) {
		w.buf = w.buf[:at]
		w.counts(2)
		w.share(at, w.private)
	}
	return at
}

// counts writes the counts of the types whose slabs are taken a number of times at least.
func (w *writer) counts(takes uint8) {
	at := len(w.buf)
	w.buf = append(w.buf, 0)
	for _, n := range w.needs.slabs.seen {
		if c := w.needs.slabs.counts[n]; c.takes >= takes && len(w.buf)-at < 2*form.SlabKinds {
			w.buf = append(w.buf, n, c.values)
			w.buf[at] += 1 << 1
		}
	}
}
