// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tarn-dev/tarn/internal/flat/form"
)

// pairCount returns the number of pairs that h announces. A pair takes at least a byte of the form,
// and size bytes of memory.
func (r *reader) pairCount(h uint64, size int) (int, bool) {
	n := h >> 1
	if n > uint64(len(r.buf)-r.pos) || !r.charge(int(n)*size) {
		r.fail()
		return 0, false
	}
	return int(n), true
}

// stringMap reads a map of strings. If it fails, it returns the pairs that it has read.
func (r *reader) stringMap() map[string]string {
	h := r.uvarint()
	if h&1 != 0 {
		back, ok := r.shared(h >> 1)
		if !ok {
			return nil
		}
		m := r.stringMap()
		r.leave(back)
		return m
	}
	n, ok := r.pairCount(h, form.StringPair)
	if !ok {
		return nil
	}
	m := make(map[string]string, n)
	for i := 0; i < n && !r.bad; i++ {
		k := r.string()
		m[k] = r.string()
	}
	return m
}

// quantityMap reads a map of quantities into the map at p. The keys may be of any string type.
func (r *reader) quantityMap(p unsafe.Pointer) {
	h := r.uvarint()
	if h&1 != 0 {
		if back, ok := r.shared(h >> 1); ok {
			r.quantityMap(p)
			r.leave(back)
		}
		return
	}
	n, ok := r.pairCount(h, form.QuantityPair)
	if !ok {
		return
	}
	m := make(map[string]resource.Quantity, n)
	for i := 0; i < n && !r.bad; i++ {
		k := r.string()
		var q resource.Quantity
		r.quantity(unsafe.Pointer(&q))
		m[k] = q
	}
	*(*map[string]resource.Quantity)(p) = m
}
