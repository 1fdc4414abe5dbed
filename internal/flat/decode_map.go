// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// pairCount returns the number of pairs that h announces. A pair takes at least a byte of the form,
// and size bytes of memory.
func (d *decoder) pairCount(h uint64, size int) (int, bool) {
	n := h >> 1
	if n > uint64(len(d.buf)-d.pos) || !d.charge(int(n)*size) {
		d.fail()
		return 0, false
	}
	return int(n), true
}

// stringMap reads a map of strings. If it fails, it returns the pairs that it has read.
func (d *decoder) stringMap() map[string]string {
	h := d.uvarint()
	if h&1 != 0 {
		back, ok := d.shared(h >> 1)
		if !ok {
			return nil
		}
		m := d.stringMap()
		d.leave(back)
		return m
	}
	n, ok := d.pairCount(h, stringPair)
	if !ok {
		return nil
	}
	m := make(map[string]string, n)
	for i := 0; i < n && !d.bad; i++ {
		k := d.string()
		m[k] = d.string()
	}
	return m
}

// quantityMap reads a map of quantities into the map at p. The keys may be of any string type.
func (d *decoder) quantityMap(p unsafe.Pointer) {
	h := d.uvarint()
	if h&1 != 0 {
		if back, ok := d.shared(h >> 1); ok {
			d.quantityMap(p)
			d.leave(back)
		}
		return
	}
	n, ok := d.pairCount(h, quantityPair)
	if !ok {
		return
	}
	m := make(map[string]resource.Quantity, n)
	for i := 0; i < n && !d.bad; i++ {
		k := d.string()
		var q resource.Quantity
		d.quantity(unsafe.Pointer(&q))
		m[k] = q
	}
	*(*map[string]resource.Quantity)(p) = m
}

// anyMap reads any other map by reflection.
func (d *decoder) anyMap(t *plan, p unsafe.Pointer) {
	h := d.uvarint()
	if h&1 != 0 {
		if back, ok := d.shared(h >> 1); ok {
			d.anyMap(t, p)
			d.leave(back)
		}
		return
	}
	n, ok := d.pairCount(h, t.pairSize())
	if !ok || !d.enter() {
		return
	}
	m := reflect.MakeMapWithSize(t.typ, n)
	key, value := reflect.New(t.key.typ), reflect.New(t.elem.typ)
	for i := 0; i < n && !d.bad; i++ {
		key.Elem().SetZero()
		value.Elem().SetZero()
		d.value(t.key, key.UnsafePointer())
		d.element(t.elem, value.UnsafePointer())
		m.SetMapIndex(key.Elem(), value.Elem())
	}
	reflect.NewAt(t.typ, p).Elem().Set(m)
	d.depth--
}
