// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"math/bits"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DecodeBeside is Decode for who has a similar object and changes neither: it overwrites into
// with what was encoded, and wherever a slice, a map or what a pointer points to equals what
// stands at the same place of like, into refers to that instead of memory of its own. Both are
// non-nil pointers to the codec's type.
//
// What is equal is found by comparison, each value of the object at most twice. The errors are
// those of Decode.
func (c *Codec) DecodeBeside(o Object, into, like any) error {
	p, err := c.memory(into)
	if err != nil {
		return err
	}
	q, err := c.memory(like)
	if err != nil {
		return err
	}
	if p == q {
		return c.decode(o, p, into)
	}
	var d decoder
	if !d.open(o) || d.flags != c.flags || d.fingerprint != c.fingerprint {
		return c.wrong(o)
	}
	// The chunks that the encoder measured are for the whole object: take what is needed.
	d.want, d.wantStr = 0, 0
	d.trail = &trail{}
	if c.flags&flagContent != 0 {
		u := (*unstructured.Unstructured)(p)
		u.Object = nil
		d.skipHead()
		d.documentBeside(&u.Object, (*unstructured.Unstructured)(q).Object)
		return d.finish()
	}
	reflect.ValueOf(into).Elem().SetZero()
	if c.flags&flagMetadata != 0 {
		d.structureBeside(metadataPlan(), unsafe.Add(p, c.meta), unsafe.Add(q, c.meta))
	}
	d.structureBeside(c.fields, p, q)
	return d.finish()
}

// trail leads to the first difference that a comparison found: it holds where the values are
// that contain it. They need no comparison of their own when they are read next. It only saves
// work: values that are not in it are compared, and those that are in it by mistake are copied.
type trail struct {
	values [16]unsafe.Pointer // a ring; the outermost last
	n      int                // of the last one
	held   int                // how many
}

// add notes that the value at q differs, which contains those added before.
func (t *trail) add(q unsafe.Pointer) {
	if t == nil {
		return
	}
	t.n = (t.n + 1) % len(t.values)
	t.values[t.n] = q
	t.held = min(t.held+1, len(t.values))
}

// next says whether the next value on the trail is at q, and goes on behind it if so.
func (t *trail) next(q unsafe.Pointer) bool {
	if t.held == 0 || t.values[t.n] != q {
		return false
	}
	t.n = (t.n + len(t.values) - 1) % len(t.values)
	t.held--
	return true
}

// mark is where a decoder stands.
type mark struct {
	place
	depth int
}

// mark returns where d stands.
func (d *decoder) mark() mark { return mark{place{d.buf, d.pos}, d.depth} }

// back goes back to where d stood.
func (d *decoder) back(m mark) { d.buf, d.pos, d.depth = m.buf, m.pos, m.depth }

// same says whether the value where d stands is the one at q, which is kept at memory like, and
// reads it if so.
func (d *decoder) same(t *plan, q, like unsafe.Pointer) bool {
	if d.trail.next(like) {
		return false
	}
	from := d.mark()
	if d.equal(t, q) {
		return true
	}
	if !d.bad {
		d.back(from)
	}
	d.trail.next(like) // what is on the trail now is in there
	return false
}

// structureBeside is structure beside the struct at q.
func (d *decoder) structureBeside(s *structPlan, p, q unsafe.Pointer) {
	for i := range s.groups {
		g := &s.groups[i]
		for set := d.bitmap(g); set != 0; set &= set - 1 {
			f := &g.fields[bits.TrailingZeros64(set)]
			fp, fq := unsafe.Add(p, f.offset), unsafe.Add(q, f.offset)
			switch f.kind {
			case kindString:
				*(*string)(fp) = d.string()
			case kindBool:
				*(*bool)(fp) = true
			case kindStruct:
				d.structureBeside(f.plan.fields, fp, fq)
			default:
				d.beside(f.plan, fp, fq)
			}
		}
	}
}

// beside is value beside the value at q, which may be nil.
func (d *decoder) beside(t *plan, p, q unsafe.Pointer) {
	switch t.kind {
	case kindStruct:
		d.wholeBeside(t, p, q)
		return
	case kindContent:
		*(*any)(p) = d.contentBeside(*(*any)(q))
		return
	case kindPointer, kindSlice, kindBytes, kindStringMap, kindQuantityMap, kindContentMap, kindMap, kindHandle:
	default:
		d.value(t, p)
		return
	}
	like := *(*unsafe.Pointer)(q)
	switch {
	case like == nil:
		d.value(t, p)
	case t.kind == kindContentMap:
		v, _ := d.contentBeside(*(*map[string]any)(q)).(map[string]any)
		*(*map[string]any)(p) = v
	case d.same(t, q, like):
		if t.kind == kindSlice || t.kind == kindBytes {
			s := *(*sliceHeader)(q)
			s.cap = s.len // who appends to one of the two must not write into the other
			*(*sliceHeader)(p) = s
		} else {
			*(*unsafe.Pointer)(p) = like
		}
	case t.kind == kindPointer:
		d.pointeeBeside(t.elem, p, like)
	case t.kind == kindSlice:
		d.sliceBeside(t, (*sliceHeader)(p), (*sliceHeader)(q))
	default:
		d.value(t, p)
	}
}

// elementBeside is element beside the element at q.
func (d *decoder) elementBeside(t *plan, p, q unsafe.Pointer) {
	switch t.kind {
	case kindPointer, kindSlice, kindBytes, kindStringMap, kindQuantityMap, kindContentMap, kindMap, kindHandle:
		if d.byte() == 0 {
			return
		}
	}
	d.beside(t, p, q)
}

// wholeBeside is whole beside the struct at q.
func (d *decoder) wholeBeside(t *plan, p, q unsafe.Pointer) {
	if !t.shared {
		d.structureBeside(t.fields, p, q)
		return
	}
	h := d.uvarint()
	if h&1 == 0 {
		d.structureBeside(t.fields, p, q)
		return
	}
	if back, ok := d.shared(h >> 1); ok {
		d.wholeBeside(t, p, q)
		d.leave(back)
	}
}

// pointeeBeside is pointee beside what is at q.
func (d *decoder) pointeeBeside(t *plan, p, q unsafe.Pointer) {
	if !d.enter() || !d.charge(int(t.size)) {
		return
	}
	to := d.newPointee(t)
	*(*unsafe.Pointer)(p) = to
	d.elementBeside(t, to, q)
	d.depth--
}

// sliceBeside is slice beside another slice, whose elements are those at the same place.
func (d *decoder) sliceBeside(t *plan, s, like *sliceHeader) {
	h := d.uvarint()
	if h&1 != 0 {
		if back, ok := d.shared(h >> 1); ok {
			d.sliceBeside(t, s, like)
			d.leave(back)
		}
		return
	}
	n := d.makeSlice(t, s, h)
	for i := 0; i < n && !d.bad; i++ {
		at := uintptr(i) * t.elem.size
		if i < like.len {
			d.elementBeside(t.elem, unsafe.Add(s.data, at), unsafe.Add(like.data, at))
		} else {
			d.element(t.elem, unsafe.Add(s.data, at))
		}
	}
	if n > 0 {
		d.depth--
	}
}
