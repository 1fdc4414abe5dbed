// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"bytes"
	"math"
	"reflect"
	"time"
	"unique"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// The functions here read a value as those of the decoder do, and say whether decoding it would
// give what stands at q already, as strictly as the form is lossless. They write nothing. After
// a difference the decoder is anywhere in the value; the caller goes back, see decoder.mark.

// equal compares a value that is known not to be nil, here and at q: see decoder.value.
func (d *decoder) equal(t *plan, q unsafe.Pointer) bool {
	switch t.kind {
	case kindBool:
		return (d.byte() != 0) == *(*bool)(q)
	case kindInt8:
		return int8(d.varint()) == *(*int8)(q)
	case kindInt16:
		return int16(d.varint()) == *(*int16)(q)
	case kindInt32:
		return int32(d.varint()) == *(*int32)(q)
	case kindInt64:
		return d.varint() == *(*int64)(q)
	case kindUint8:
		return uint8(d.uvarint()) == *(*uint8)(q)
	case kindUint16:
		return uint16(d.uvarint()) == *(*uint16)(q)
	case kindUint32:
		return uint32(d.uvarint()) == *(*uint32)(q)
	case kindUint64:
		return d.uvarint() == *(*uint64)(q)
	case kindFloat32:
		return d.uint32() == math.Float32bits(*(*float32)(q))
	case kindFloat64:
		return d.uint64() == math.Float64bits(*(*float64)(q))
	case kindString:
		return d.string() == *(*string)(q)
	case kindBytes:
		return d.equalBytes(*(*[]byte)(q))
	case kindPointer:
		return d.equalPointee(t.elem, *(*unsafe.Pointer)(q))
	case kindSlice:
		return d.equalSlice(t.elem, (*sliceHeader)(q))
	case kindStruct:
		return d.equalWhole(t, q)
	default:
		return d.equalComposite(t, q)
	}
}

// equalComposite is equal for arrays, maps and types with a form of their own.
func (d *decoder) equalComposite(t *plan, q unsafe.Pointer) bool {
	switch t.kind {
	case kindArray:
		return d.equalElements(t.elem, q, t.count)
	case kindStringMap:
		return d.equalStringMap(*(*map[string]string)(q))
	case kindQuantityMap:
		return d.equalQuantityMap(*(*map[string]resource.Quantity)(q))
	case kindContentMap:
		return d.equalContent(*(*map[string]any)(q))
	case kindMap:
		return d.equalMap(t, q)
	case kindContent:
		return d.equalContent(*(*any)(q))
	case kindTime:
		return d.equalTime((*timeMemory)(q))
	case kindQuantity:
		return d.equalQuantity((*quantityMemory)(q))
	case kindRawExtension:
		r := (*runtime.RawExtension)(q)
		if r.Object != nil || (d.byte() != 0) != (r.Raw != nil) {
			return false
		}
		return r.Raw == nil || d.equalBytes(r.Raw)
	case kindHandle:
		return d.string() == (*(*unique.Handle[string])(q)).Value()
	default:
		return false
	}
}

// equalStructure compares the fields of a struct.
func (d *decoder) equalStructure(s *structPlan, q unsafe.Pointer) bool {
	for i := range s.groups {
		g := &s.groups[i]
		set := d.bitmap(g)
		for n := range g.fields {
			if !d.equalField(&g.fields[n], q, set>>n&1 != 0) {
				return false
			}
		}
	}
	return !d.bad
}

// equalField compares one field of the struct at q; set says whether it is not zero here.
func (d *decoder) equalField(f *field, q unsafe.Pointer, set bool) bool {
	if f.wide {
		if (*(*uint64)(unsafe.Add(q, f.probe)) != 0) != set {
			return false
		}
		if !set {
			return true
		}
	}
	at := unsafe.Add(q, f.offset)
	switch {
	case f.kind == kindStruct:
		if set {
			return d.equalStructure(f.plan.fields, at)
		}
		return zeroStructure(f.plan.fields, at)
	case !f.wide && zero(f.plan, at) == set:
		return false
	case !set, f.kind == kindBool: // the bit says it all
		return true
	case f.kind == kindString:
		return d.string() == *(*string)(at)
	default:
		return d.equal(f.plan, at)
	}
}

// zeroStructure says whether the encoder finds nothing to write of the struct at q.
func zeroStructure(s *structPlan, q unsafe.Pointer) bool {
	for i := range s.groups {
		for n := range s.groups[i].fields {
			f := &s.groups[i].fields[n]
			at := unsafe.Add(q, f.offset)
			switch {
			case f.wide:
				if *(*uint64)(unsafe.Add(q, f.probe)) != 0 {
					return false
				}
			case f.kind == kindStruct:
				if !zeroStructure(f.plan.fields, at) {
					return false
				}
			case !zero(f.plan, at):
				return false
			}
		}
	}
	return true
}

// equalElement compares a value that may be nil: see decoder.element.
func (d *decoder) equalElement(t *plan, q unsafe.Pointer) bool {
	switch t.kind {
	case kindPointer, kindSlice, kindBytes, kindStringMap, kindQuantityMap, kindContentMap, kindMap, kindHandle:
		isNil := *(*unsafe.Pointer)(q) == nil
		if (d.byte() == 0) != isNil {
			return false
		}
		if isNil {
			return true
		}
	}
	return d.equal(t, q)
}

// equalElements compares n values one after the other.
func (d *decoder) equalElements(t *plan, q unsafe.Pointer, n int) bool {
	for i := range n {
		if d.bad || !d.equalElement(t, unsafe.Add(q, uintptr(i)*t.size)) {
			return false
		}
	}
	return true
}

// equalWhole compares a struct that stands for itself.
func (d *decoder) equalWhole(t *plan, q unsafe.Pointer) bool {
	if !t.shared {
		return d.equalStructure(t.fields, q)
	}
	h := d.uvarint()
	if h&1 == 0 {
		return d.equalStructure(t.fields, q)
	}
	back, ok := d.shared(h >> 1)
	return ok && d.equalWhole(t, q) && d.left(back)
}

// left is leave where it must have gone well.
func (d *decoder) left(back place) bool {
	d.leave(back)
	return !d.bad
}

// equalPointee compares what a pointer points to.
func (d *decoder) equalPointee(t *plan, to unsafe.Pointer) bool {
	if !d.enter() {
		return false
	}
	if !d.equalElement(t, to) {
		d.trail.add(to)
		return false
	}
	d.depth--
	return true
}

// equalSlice compares a slice of elements of plan t.
func (d *decoder) equalSlice(t *plan, s *sliceHeader) bool {
	h := d.uvarint()
	if h&1 != 0 {
		back, ok := d.shared(h >> 1)
		return ok && d.equalSlice(t, s) && d.left(back)
	}
	if h>>1 != uint64(s.len) || !d.enter() {
		return false
	}
	if !d.equalElements(t, s.data, s.len) {
		d.trail.add(s.data)
		return false
	}
	d.depth--
	return true
}

// equalBytes compares a byte slice that is not nil.
func (d *decoder) equalBytes(b []byte) bool {
	h := d.uvarint()
	if h != markPieces {
		return d.stringAfter(h) == stringOf(b)
	}
	if d.uvarint() != uint64(len(b)) {
		return false
	}
	for len(b) > 0 {
		s := d.string()
		if len(s) == 0 || !bytes.HasPrefix(b, unsafe.Slice(unsafe.StringData(s), len(s))) {
			return false
		}
		b = b[len(s):]
	}
	return true
}

// equalStringMap compares a map of strings. The encoder writes no key twice, so that it is
// enough to look up as many as there are.
func (d *decoder) equalStringMap(m map[string]string) bool {
	h := d.uvarint()
	if h&1 != 0 {
		back, ok := d.shared(h >> 1)
		return ok && d.equalStringMap(m) && d.left(back)
	}
	if h>>1 != uint64(len(m)) {
		return false
	}
	for range len(m) {
		k, v := d.string(), d.string()
		if have, ok := m[k]; !ok || have != v {
			return false
		}
	}
	return !d.bad
}

// equalQuantityMap compares a map of quantities.
func (d *decoder) equalQuantityMap(m map[string]resource.Quantity) bool {
	h := d.uvarint()
	if h&1 != 0 {
		back, ok := d.shared(h >> 1)
		return ok && d.equalQuantityMap(m) && d.left(back)
	}
	if h>>1 != uint64(len(m)) {
		return false
	}
	for range len(m) {
		have, ok := m[d.string()]
		if !ok || !d.equalQuantity((*quantityMemory)(unsafe.Pointer(&have))) {
			return false
		}
	}
	return !d.bad
}

// equalMap compares any other map.
func (d *decoder) equalMap(t *plan, q unsafe.Pointer) bool {
	h := d.uvarint()
	if h&1 != 0 {
		back, ok := d.shared(h >> 1)
		return ok && d.equalMap(t, q) && d.left(back)
	}
	m := reflect.NewAt(t.typ, q).Elem()
	if h>>1 != uint64(m.Len()) || !d.enter() {
		return false
	}
	key, value := reflect.New(t.key.typ), reflect.New(t.elem.typ)
	for range m.Len() {
		key.Elem().SetZero()
		d.value(t.key, key.UnsafePointer()) // a number or a string
		have := m.MapIndex(key.Elem())
		if d.bad || !have.IsValid() {
			return false
		}
		value.Elem().Set(have)
		if !d.equalElement(t.elem, value.UnsafePointer()) {
			return false
		}
	}
	d.depth--
	return !d.bad
}

// equalTime compares a time.Time. One in a fixed zone, which decoding makes anew, never is equal.
func (d *decoder) equalTime(t *timeMemory) bool {
	flags := d.byte()
	wall, ext := uint64(0), int64(0)
	if flags&timeShort != 0 {
		ext = int64(d.uint32()) + unixToInternal
	} else {
		wall, ext = d.uvarint(), d.varint()
	}
	if t.wall != wall || t.ext != ext {
		return false
	}
	switch flags & zoneMask {
	case zoneUTC:
		return t.loc == nil
	case zoneLocal:
		return t.loc == time.Local
	case zoneNumbered:
		i, zones := d.uvarint(), d.dict.zones()
		return i < uint64(len(zones)) && t.loc == zones[i]
	default:
		return false
	}
}

// equalQuantity compares a resource.Quantity. One of arbitrary precision never is equal: they
// are rare.
func (d *decoder) equalQuantity(q *quantityMemory) bool {
	flags := d.byte()
	if flags&quantityDec != 0 || q.dec != nil || d.varint() != q.value {
		return false
	}
	scale, format, cached := int32(0), "", ""
	if flags&quantityScale != 0 {
		scale = int32(d.varint())
	}
	switch f := int(flags & quantityFormat); {
	case f == formatOther:
		format = d.string()
	case f > formatOther:
		return false
	default:
		format = formats[f]
	}
	if flags&quantityCached != 0 {
		cached = d.string()
	}
	return scale == q.scale && format == q.format && cached == q.cached
}
