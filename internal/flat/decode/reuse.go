// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"math/bits"
	"reflect"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// Reusing is decode for a caller that has a similar decoded object like, and its flat form
// other, and changes neither.
func Reusing(t *plan.Root, o Object, into any, other Object, like any) error {
	p, err := t.Memory(into)
	if err != nil {
		return err
	}
	q, err := t.Memory(like)
	if err != nil {
		return err
	}
	var d, b decoder
	var h header
	if p == q || o.Dictionary() != other.Dictionary() || !b.open(other, &h) || !h.is(t) {
		return Decode(t, o, into, true)
	}
	if !d.open(o, &h) || !h.is(t) {
		return wrong(t, o)
	}
	// The sizes that the encoder measured are for the whole object, so allocate as needed instead.
	d.other, d.sections, b.other, b.apart = &b, h.table, &d, true
	if t.IsContent() {
		u := (*unstructured.Unstructured)(p)
		u.Object = nil
		d.skipHead()
		b.skipHead()
		d.documentReusing(&u.Object, (*unstructured.Unstructured)(q).Object)
		return d.finish()
	}
	reflect.ValueOf(into).Elem().SetZero()
	if t.HasMetadata() {
		d.structureReusing(plan.Metadata(), unsafe.Add(p, t.Meta), unsafe.Add(q, t.Meta))
	}
	d.structureReusing(t.Fields, p, q)
	return d.finish()
}

// The functions here read a value of the object, as the other methods of decoder do, and at the
// same time the value at the same place of the other object, which stands at q in memory. They move
// both decoders behind the value. The memory at q may have been changed, so they do not trust that
// it fits to the bytes of the other object.

// structureReusing is structure with reuse of the struct at q.
func (d *decoder) structureReusing(s *plan.Struct, p, q unsafe.Pointer) {
	for i := range s.Groups {
		g := &s.Groups[i]
		set, have := d.bitmap(g), d.other.bitmap(g)
		for all := set | have; all != 0; all &= all - 1 {
			n := bits.TrailingZeros64(all)
			f, bit := &g.Fields[n], uint64(1)<<n
			switch {
			case set&bit == 0:
				d.other.skipField(f)
			case have&bit == 0:
				d.field(f, unsafe.Add(p, f.Offset))
			default:
				d.fieldReusing(f, unsafe.Add(p, f.Offset), unsafe.Add(q, f.Offset))
			}
		}
	}
}

// field reads a field whose bit is set in the bitmap.
func (d *decoder) field(f *plan.Field, p unsafe.Pointer) {
	switch f.Kind {
	case plan.KindBool:
		*(*bool)(p) = true
	case plan.KindStruct:
		d.structure(f.Plan.Fields, p)
	case plan.KindSection:
		d.base = d.pos
		d.structure(f.Plan.Fields, p)
		d.base = 0
	default:
		d.value(f.Plan, p)
	}
}

// fieldReusing is field with reuse of the field at q, whose bit is set in the bitmap of the other
// object.
func (d *decoder) fieldReusing(f *plan.Field, p, q unsafe.Pointer) {
	switch f.Kind {
	case plan.KindString:
		*(*string)(p) = d.string()
		d.other.skipString()
	case plan.KindBool:
		*(*bool)(p) = true
	case plan.KindStruct:
		d.structureReusing(f.Plan.Fields, p, q)
	case plan.KindSection:
		d.base, d.other.base = d.pos, d.other.pos
		if d.sameSection() {
			f.Plan.Share(p, q)
		} else {
			d.structureReusing(f.Plan.Fields, p, q)
		}
		d.base, d.other.base = 0, 0
	default:
		d.valueReusing(f.Plan, p, q)
	}
}

// valueReusing is value with reuse of the value at q.
func (d *decoder) valueReusing(t *plan.Plan, p, q unsafe.Pointer) {
	switch {
	case d.depth > reusingDepth:
	case t.Kind == plan.KindStruct:
		d.wholeReusing(t, p, q)
		return
	case t.Kind == plan.KindContent:
		*(*any)(p) = d.contentReusing(*(*any)(q))
		return
	case !t.Nillable() || *(*unsafe.Pointer)(q) == nil:
	case t.Kind == plan.KindContentMap:
		v, _ := d.contentReusing(*(*map[string]any)(q)).(map[string]any)
		*(*map[string]any)(p) = v
		return
	case d.same(t):
		takeOver(t, p, q)
		return
	case t.Kind == plan.KindPointer:
		d.pointeeReusing(t.Elem, p, *(*unsafe.Pointer)(q))
		return
	case t.Kind == plan.KindSlice:
		d.sliceReusing(t, (*plan.SliceHeader)(p), (*plan.SliceHeader)(q))
		return
	}
	d.value(t, p)
	d.other.skip(t)
}

// sameSection skips a section of both objects and returns true if the two are equal: most updates leave a large
// section as it is. If they differ, or if the object has no table that says where the section ends, it moves
// neither decoder.
func (d *decoder) sameSection() bool {
	b := d.other
	size := sectionSize(d.sections, d.pos)
	if size == 0 || size > len(d.buf)-d.pos || b.annex.Parts != nil || !strings.HasPrefix(b.buf[b.pos:], d.buf[d.pos:d.pos+size]) {
		return false
	}
	d.pos += size
	b.pos += size
	return true
}

// takeOver makes the value at p refer to the memory to which the value at q refers.
func takeOver(t *plan.Plan, p, q unsafe.Pointer) {
	if t.Kind != plan.KindSlice && t.Kind != plan.KindBytes {
		*(*unsafe.Pointer)(p) = *(*unsafe.Pointer)(q)
		return
	}
	s := *(*plan.SliceHeader)(q)
	s.Cap = s.Len // an append to one of the two must not write into the other
	*(*plan.SliceHeader)(p) = s
}

// elementReusing is element with reuse of the element at q.
func (d *decoder) elementReusing(t *plan.Plan, p, q unsafe.Pointer) {
	if t.Nillable() {
		set, have := d.byte() != 0, d.other.byte() != 0
		switch {
		case set && !have:
			d.value(t, p)
			return
		case have && !set:
			d.other.skip(t)
			return
		case !set:
			return
		}
	}
	d.valueReusing(t, p, q)
}

// wholeReusing is whole with reuse of the struct at q.
func (d *decoder) wholeReusing(t *plan.Plan, p, q unsafe.Pointer) {
	if !t.Shared {
		d.structureReusing(t.Fields, p, q)
		return
	}
	_, back, entered := d.inside()
	_, otherBack, otherEntered := d.other.inside()
	d.structureReusing(t.Fields, p, q)
	d.outside(back, entered)
	d.other.outside(otherBack, otherEntered)
}

// pointeeReusing is pointee with reuse of the value at q.
func (d *decoder) pointeeReusing(t *plan.Plan, p, q unsafe.Pointer) {
	if !d.enter() || !d.charge(int(t.Size)) {
		return
	}
	to := d.memory.newPointee(t)
	*(*unsafe.Pointer)(p) = to
	d.elementReusing(t, to, q)
	d.depth--
}

// sliceReusing is slice with reuse of another slice. It compares elements with the same index.
func (d *decoder) sliceReusing(t *plan.Plan, s, like *plan.SliceHeader) {
	h, back, entered := d.inside()
	otherH, otherBack, otherEntered := d.other.inside()
	both := otherH >> 1
	n := uint64(d.makeSlice(t, s, h))
	for i := uint64(0); i < n && !d.bad; i++ {
		at := uintptr(i) * t.Elem.Size
		switch {
		case i < both && i < uint64(like.Len):
			d.elementReusing(t.Elem, unsafe.Add(s.Data, at), unsafe.Add(like.Data, at))
			continue
		case i < both:
			d.other.skipElement(t.Elem)
		}
		d.element(t.Elem, unsafe.Add(s.Data, at))
	}
	if n > 0 {
		d.depth--
	}
	if both > n {
		d.other.skipElements(t.Elem, both-n)
	}
	d.outside(back, entered)
	d.other.outside(otherBack, otherEntered)
}
