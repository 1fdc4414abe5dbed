// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"math/bits"
	"reflect"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// decodeReusing is decode for a caller that has a similar decoded object like, and its flat form
// other, and changes neither.
func decodeReusing(t *root, o Object, into any, other Object, like any) error {
	p, err := t.memory(into)
	if err != nil {
		return err
	}
	q, err := t.memory(like)
	if err != nil {
		return err
	}
	var d, b decoder
	if p == q || o.Dictionary() != other.Dictionary() || !b.open(other) || !b.head.is(t) {
		return decode(t, o, into, true)
	}
	if !d.open(o) || !d.head.is(t) {
		return wrong(t, o)
	}
	// The sizes that the encoder measured are for the whole object, so allocate as needed instead.
	d.other, b.other, b.apart = &b, &d, true
	if t.flags&flagContent != 0 {
		u := (*unstructured.Unstructured)(p)
		u.Object = nil
		d.skipHead()
		b.skipHead()
		d.documentReusing(&u.Object, (*unstructured.Unstructured)(q).Object)
		return d.finish()
	}
	reflect.ValueOf(into).Elem().SetZero()
	if t.flags&flagMetadata != 0 {
		d.structureReusing(metadataPlan(), unsafe.Add(p, t.meta), unsafe.Add(q, t.meta))
	}
	d.structureReusing(t.fields, p, q)
	return d.finish()
}

// The functions here read a value of the object, as the other methods of decoder do, and at the
// same time the value at the same place of the other object, which stands at q in memory. They move
// both decoders behind the value. The memory at q may have been changed, so they do not trust that
// it fits to the bytes of the other object.

// reusingDepth is the depth down to which values are compared. Each level compares all bytes below
// it, so the cost grows with the depth.
const reusingDepth = 16

// mark is the position and the depth of a decoder.
type mark struct {
	place
	depth int
}

// mark returns the position and the depth of d.
func (d *decoder) mark() mark { return mark{place{d.buf, d.pos}, d.depth} }

// back returns d to m, unless d failed meanwhile.
func (d *decoder) back(m mark) {
	if !d.bad {
		d.buf, d.pos, d.depth = m.buf, m.pos, m.depth
	}
}

// same skips a value of plan t in both objects and returns true if the two are equal. If they
// differ, it moves neither decoder.
func (d *decoder) same(t *plan) bool {
	b := d.other
	from, other := d.mark(), b.mark()
	b.apart, b.compared = false, b.pos
	b.skip(t)
	b.compare(b.pos)
	same := !b.apart && !b.bad
	b.apart = true
	if !same {
		d.back(from)
		b.back(other)
	}
	return same
}

// compare checks that the other object has the same bytes as d has between the last comparison and
// end, and skips them there. The bytes of a value say where the value ends, so a value that begins
// with all bytes of another value is equal to it.
func (d *decoder) compare(end int) {
	if d.apart || d.bad {
		return
	}
	b, span := d.other, d.buf[d.compared:end]
	if !strings.HasPrefix(b.buf[b.pos:], span) {
		d.apart = true
		return
	}
	b.pos += len(span)
}

// compareReference compares a reference to an earlier string, which d has just read at from. Two
// references are equal if their strings are equal, at whatever positions these stand.
func (d *decoder) compareReference(at uint64, from int) {
	if d.compare(from); d.apart || d.bad {
		return
	}
	b := d.other
	h := b.uvarint()
	here, ok := d.stringAt(at)
	there, found := b.stringAt(h >> 2)
	d.apart = h&3 != 2 || !ok || !found || here != there
	d.compared = d.pos
}

// structureReusing is structure with reuse of the struct at q.
func (d *decoder) structureReusing(s *structPlan, p, q unsafe.Pointer) {
	for i := range s.groups {
		g := &s.groups[i]
		set, have := d.bitmap(g), d.other.bitmap(g)
		for all := set | have; all != 0; all &= all - 1 {
			n := bits.TrailingZeros64(all)
			f, bit := &g.fields[n], uint64(1)<<n
			switch {
			case set&bit == 0:
				d.other.skipField(f)
			case have&bit == 0:
				d.field(f, unsafe.Add(p, f.offset))
			default:
				d.fieldReusing(f, unsafe.Add(p, f.offset), unsafe.Add(q, f.offset))
			}
		}
	}
}

// field reads a field whose bit is set in the bitmap.
func (d *decoder) field(f *field, p unsafe.Pointer) {
	switch f.kind {
	case kindBool:
		*(*bool)(p) = true
	case kindStruct:
		d.structure(f.plan.fields, p)
	case kindSection:
		d.base = d.pos
		d.structure(f.plan.fields, p)
		d.base = 0
	default:
		d.value(f.plan, p)
	}
}

// fieldReusing is field with reuse of the field at q, whose bit is set in the bitmap of the other
// object.
func (d *decoder) fieldReusing(f *field, p, q unsafe.Pointer) {
	switch f.kind {
	case kindString:
		*(*string)(p) = d.string()
		d.other.skipString()
	case kindBool:
		*(*bool)(p) = true
	case kindStruct:
		d.structureReusing(f.plan.fields, p, q)
	case kindSection:
		d.base, d.other.base = d.pos, d.other.pos
		d.structureReusing(f.plan.fields, p, q)
		d.base, d.other.base = 0, 0
	default:
		d.valueReusing(f.plan, p, q)
	}
}

// valueReusing is value with reuse of the value at q.
func (d *decoder) valueReusing(t *plan, p, q unsafe.Pointer) {
	switch {
	case d.depth > reusingDepth:
	case t.kind == kindStruct:
		d.wholeReusing(t, p, q)
		return
	case t.kind == kindContent:
		*(*any)(p) = d.contentReusing(*(*any)(q))
		return
	case !t.nillable() || *(*unsafe.Pointer)(q) == nil:
	case t.kind == kindContentMap:
		v, _ := d.contentReusing(*(*map[string]any)(q)).(map[string]any)
		*(*map[string]any)(p) = v
		return
	case d.same(t):
		takeOver(t, p, q)
		return
	case t.kind == kindPointer:
		d.pointeeReusing(t.elem, p, *(*unsafe.Pointer)(q))
		return
	case t.kind == kindSlice:
		d.sliceReusing(t, (*sliceHeader)(p), (*sliceHeader)(q))
		return
	}
	d.value(t, p)
	d.other.skip(t)
}

// takeOver makes the value at p refer to the memory to which the value at q refers.
func takeOver(t *plan, p, q unsafe.Pointer) {
	if t.kind != kindSlice && t.kind != kindBytes {
		*(*unsafe.Pointer)(p) = *(*unsafe.Pointer)(q)
		return
	}
	s := *(*sliceHeader)(q)
	s.cap = s.len // an append to one of the two must not write into the other
	*(*sliceHeader)(p) = s
}

// elementReusing is element with reuse of the element at q.
func (d *decoder) elementReusing(t *plan, p, q unsafe.Pointer) {
	if t.nillable() {
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

// inside reads the first number of a value. If this is the number of a dictionary entry, inside
// goes into the entry and reads the first number there. The method outside goes back.
func (r *reader) inside() (h uint64, back place, entered bool) {
	if h = r.uvarint(); h&1 == 0 {
		return h, place{}, false
	}
	if back, entered = r.shared(h >> 1); entered {
		if h = r.uvarint(); h&1 != 0 { // no entry is nothing but another one
			r.fail()
		}
	}
	return h &^ 1, back, entered
}

// outside ends what inside began, and moves d behind the value.
func (r *reader) outside(back place, entered bool) {
	if entered {
		r.leave(back)
	}
}

// wholeReusing is whole with reuse of the struct at q.
func (d *decoder) wholeReusing(t *plan, p, q unsafe.Pointer) {
	if !t.shared {
		d.structureReusing(t.fields, p, q)
		return
	}
	_, back, entered := d.inside()
	_, otherBack, otherEntered := d.other.inside()
	d.structureReusing(t.fields, p, q)
	d.outside(back, entered)
	d.other.outside(otherBack, otherEntered)
}

// pointeeReusing is pointee with reuse of the value at q.
func (d *decoder) pointeeReusing(t *plan, p, q unsafe.Pointer) {
	if !d.enter() || !d.charge(int(t.size)) {
		return
	}
	to := d.memory.newPointee(t)
	*(*unsafe.Pointer)(p) = to
	d.elementReusing(t, to, q)
	d.depth--
}

// sliceReusing is slice with reuse of another slice. It compares elements with the same index.
func (d *decoder) sliceReusing(t *plan, s, like *sliceHeader) {
	h, back, entered := d.inside()
	otherH, otherBack, otherEntered := d.other.inside()
	both := otherH >> 1
	n := uint64(d.makeSlice(t, s, h))
	for i := uint64(0); i < n && !d.bad; i++ {
		at := uintptr(i) * t.elem.size
		switch {
		case i < both && i < uint64(like.len):
			d.elementReusing(t.elem, unsafe.Add(s.data, at), unsafe.Add(like.data, at))
			continue
		case i < both:
			d.other.skipElement(t.elem)
		}
		d.element(t.elem, unsafe.Add(s.data, at))
	}
	if n > 0 {
		d.depth--
	}
	if both > n {
		d.other.skipElements(t.elem, both-n)
	}
	d.outside(back, entered)
	d.other.outside(otherBack, otherEntered)
}
