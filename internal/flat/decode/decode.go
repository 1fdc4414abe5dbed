// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// Decode overwrites into, a non-nil pointer to a struct of the root's type, with the object of o.
// Values stand in slabs or singly. The error is ErrWrongType or ErrCorrupt.
func Decode(t *plan.Root, o Object, into any, inSlabs bool) error {
	p, err := t.Memory(into)
	if err != nil {
		return err
	}
	var d decoder
	var h header
	if !d.open(o, &h) || !h.is(t) {
		return wrong(t, o)
	}
	d.memory.expect(&h)
	if t.IsContent() {
		u := (*unstructured.Unstructured)(p)
		u.Object = nil
		d.skipHead()
		d.document(&u.Object)
		return d.finish()
	}
	if inSlabs {
		d.memory.slabs = newSlabTable(t, &h)
		defer d.memory.slabs.release()
	}
	reflect.ValueOf(into).Elem().SetZero()
	if t.HasMetadata() {
		d.structure(plan.Metadata(), unsafe.Add(p, t.Meta))
	}
	d.structure(t.Fields, p)
	return d.finish()
}

// wrong returns the error for an Object that does not fit to t: ErrWrongType, or ErrCorrupt if its
// header is incomplete.
func wrong(t *plan.Root, o Object) error {
	if len(o.data) < form.HeaderSize {
		return ErrCorrupt
	}
	return fmt.Errorf("%w: the object is not a flat %v", plan.ErrWrongType, t.Type)
}

// structure reads the fields of a struct into zeroed memory.
func (d *decoder) structure(s *plan.Struct, p unsafe.Pointer) {
	for i := range s.Groups {
		g := &s.Groups[i]
		for set := d.bitmap(g); set != 0; set &= set - 1 {
			f := &g.Fields[bits.TrailingZeros64(set)]
			fp := unsafe.Add(p, f.Offset)
			switch f.Kind {
			case plan.KindString:
				*(*string)(fp) = d.string()
			case plan.KindBool:
				*(*bool)(fp) = true
			case plan.KindStruct:
				d.structure(f.Plan.Fields, fp)
			case plan.KindSection:
				d.base = d.pos
				d.structure(f.Plan.Fields, fp)
				d.base = 0
			case plan.KindPointer:
				d.pointee(f.Plan.Elem, fp)
			case plan.KindSlice:
				d.slice(f.Plan, (*plan.SliceHeader)(fp))
			default:
				d.value(f.Plan, fp)
			}
		}
	}
}

// value reads a value that is not nil.
func (d *decoder) value(t *plan.Plan, p unsafe.Pointer) {
	switch t.Kind {
	case plan.KindBool:
		*(*bool)(p) = d.byte() != 0
	case plan.KindInt8:
		*(*int8)(p) = int8(d.varint())
	case plan.KindInt16:
		*(*int16)(p) = int16(d.varint())
	case plan.KindInt32:
		*(*int32)(p) = int32(d.varint())
	case plan.KindInt64:
		*(*int64)(p) = d.varint()
	case plan.KindUint8:
		*(*uint8)(p) = uint8(d.uvarint())
	case plan.KindUint16:
		*(*uint16)(p) = uint16(d.uvarint())
	case plan.KindUint32:
		*(*uint32)(p) = uint32(d.uvarint())
	case plan.KindUint64:
		*(*uint64)(p) = d.uvarint()
	case plan.KindFloat32:
		*(*float32)(p) = math.Float32frombits(d.uint32())
	case plan.KindFloat64:
		*(*float64)(p) = math.Float64frombits(d.uint64())
	case plan.KindString:
		*(*string)(p) = d.string()
	case plan.KindBytes:
		*(*[]byte)(p) = d.bytes()
	case plan.KindPointer:
		d.pointee(t.Elem, p)
	case plan.KindSlice:
		d.slice(t, (*plan.SliceHeader)(p))
	case plan.KindArray:
		for i := range t.Count {
			d.element(t.Elem, unsafe.Add(p, uintptr(i)*t.Elem.Size))
		}
	case plan.KindStruct:
		d.whole(t, p)
	default:
		d.composite(t, p)
	}
}

// composite is value for maps and types with a form of their own.
func (d *decoder) composite(t *plan.Plan, p unsafe.Pointer) {
	switch t.Kind {
	case plan.KindStringMap:
		*(*map[string]string)(p) = d.stringMap()
	case plan.KindQuantityMap:
		d.quantityMap(p)
	case plan.KindContentMap:
		v, _ := d.content().(map[string]any)
		*(*map[string]any)(p) = v
	case plan.KindMap:
		d.anyMap(t, p)
	case plan.KindContent:
		*(*any)(p) = d.content()
	case plan.KindTime:
		d.time(p)
	case plan.KindQuantity:
		d.quantity(p)
	case plan.KindRawExtension:
		if d.byte() != 0 {
			(*runtime.RawExtension)(p).Raw = d.bytes()
		}
	case plan.KindHandle:
		d.handle(p)
	}
}

// element reads a value that may be nil, in a slice, an array, a map or behind a pointer.
func (d *decoder) element(t *plan.Plan, p unsafe.Pointer) {
	if t.Nillable() && d.byte() == 0 {
		return
	}
	d.value(t, p)
}

// whole reads a struct that is written by itself or as the number of a dictionary entry.
func (d *decoder) whole(t *plan.Plan, p unsafe.Pointer) {
	if !t.Shared {
		d.structure(t.Fields, p)
		return
	}
	h := d.uvarint()
	if h&1 == 0 {
		d.structure(t.Fields, p)
		return
	}
	if back, ok := d.shared(h >> 1); ok {
		d.whole(t, p)
		d.leave(back)
	}
}

// pointee allocates the value for the pointer at p, and reads it.
func (d *decoder) pointee(t *plan.Plan, p unsafe.Pointer) {
	if !d.enter() || !d.charge(int(t.Size)) {
		return
	}
	to := d.memory.newPointee(t)
	*(*unsafe.Pointer)(p) = to
	d.element(t, to)
	d.depth--
}

// slice allocates and reads a slice.
func (d *decoder) slice(t *plan.Plan, s *plan.SliceHeader) {
	h := d.uvarint()
	if h&1 != 0 {
		if back, ok := d.shared(h >> 1); ok {
			d.slice(t, s)
			d.leave(back)
		}
		return
	}
	if n := d.makeSlice(t, s, h); n > 0 {
		d.elements(t.Elem, s.Data, n)
		d.depth--
	}
}

// makeSlice allocates the slice that h announces, goes a level deeper and returns the number of
// elements. If there are no elements, or if it fails, it returns zero and does not change the
// level.
func (d *decoder) makeSlice(t *plan.Plan, s *plan.SliceHeader, h uint64) int {
	n := int(h >> 1)
	if n == 0 {
		s.Data = unsafe.Pointer(&plan.Nothing)
		return 0
	}
	// Every element takes at least a byte.
	if uint64(n) > uint64(len(d.buf)-d.pos) || !d.charge(n*int(t.Elem.Size)) || !d.enter() {
		d.fail()
		return 0
	}
	d.memory.allocate(t, s, n)
	return n
}

// elements reads n elements into zeroed memory.
func (d *decoder) elements(t *plan.Plan, p unsafe.Pointer, n int) {
	for i := 0; i < n && !d.bad; i++ {
		at := unsafe.Add(p, uintptr(i)*t.Size)
		switch t.Kind {
		case plan.KindString:
			*(*string)(at) = d.string()
		case plan.KindStruct:
			d.whole(t, at)
		default:
			d.element(t, at)
		}
	}
}

// anyMap reads any other map by reflection.
func (d *decoder) anyMap(t *plan.Plan, p unsafe.Pointer) {
	h := d.uvarint()
	if h&1 != 0 {
		if back, ok := d.shared(h >> 1); ok {
			d.anyMap(t, p)
			d.leave(back)
		}
		return
	}
	n, ok := d.pairCount(h, t.PairSize())
	if !ok || !d.enter() {
		return
	}
	m := reflect.MakeMapWithSize(t.Type, n)
	key, value := reflect.New(t.Key.Type), reflect.New(t.Elem.Type)
	for i := 0; i < n && !d.bad; i++ {
		key.Elem().SetZero()
		value.Elem().SetZero()
		d.value(t.Key, key.UnsafePointer())
		d.element(t.Elem, value.UnsafePointer())
		m.SetMapIndex(key.Elem(), value.Elem())
	}
	reflect.NewAt(t.Type, p).Elem().Set(m)
	d.depth--
}

// DecodeMetadata overwrites into with the metadata of o, whatever the type of o, and reads nothing
// else. As with Decode, the result shares no memory that can be changed. It is empty if the object
// has no ObjectMeta. The error is ErrCorrupt, or says that the metadata of unstructured content is
// not that of a Kubernetes object.
func (o Object) DecodeMetadata(into *metav1.ObjectMeta) error {
	*into = metav1.ObjectMeta{}
	var d decoder
	var h header
	if !d.open(o, &h) {
		return ErrCorrupt
	}
	if h.flags&form.FlagMetadata == 0 {
		return nil
	}
	// The sizes that the encoder measured are for the whole object, so allocate as needed instead.
	if h.flags&form.FlagContent != 0 {
		return d.contentMetadata(into)
	}
	d.structure(plan.Metadata(), unsafe.Pointer(into))
	if d.bad {
		return ErrCorrupt
	}
	return nil
}

// contentMetadata reads the metadata of unstructured content.
func (d *decoder) contentMetadata(into *metav1.ObjectMeta) error {
	d.skipHead()
	if d.byte() != 2 || d.bad {
		if d.bad {
			return ErrCorrupt
		}
		return nil // no metadata
	}
	content := d.content()
	if d.bad {
		return ErrCorrupt
	}
	m, ok := content.(map[string]any)
	if !ok {
		return fmt.Errorf("flat: metadata is %T, not an object", content)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, into); err != nil {
		return fmt.Errorf("flat: metadata of unstructured content: %w", err)
	}
	return nil
}
