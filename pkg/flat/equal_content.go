// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/json"
	"math"
	"unsafe"
)

// equalContent says whether decoder.content would give v.
func (d *decoder) equalContent(v any) bool {
	h := d.uvarint()
	n := h >> contentBits
	switch h & contentMask {
	case contentEntry:
		s, ok := v.(string)
		entry := d.view.pointer(n)
		return ok && entry != nil && *entry == s
	case contentText:
		s, ok := v.(string)
		return ok && d.string() == s
	case contentConstant:
		return d.equalConstant(n, v)
	case contentInt:
		i, ok := v.(int64)
		return ok && i == int64(n>>1)^-int64(n&1)
	case contentMap:
		m, ok := v.(map[string]any)
		return ok && m != nil && d.equalPairs(n, m)
	case contentList:
		l, ok := v.([]any)
		return ok && l != nil && d.equalList(n, l)
	case contentShared:
		back, ok := d.shared(n)
		return ok && d.equalContent(v) && d.left(back)
	}
	return false
}

// equalConstant is equalContent for a value whose tag is contentConstant.
func (d *decoder) equalConstant(n uint64, v any) bool {
	switch n {
	case constantNil:
		return v == nil
	case constantFalse, constantTrue:
		b, ok := v.(bool)
		return ok && b == (n == constantTrue)
	case constantNilMap:
		m, ok := v.(map[string]any)
		return ok && m == nil
	case constantNilList:
		l, ok := v.([]any)
		return ok && l == nil
	case constantFloat:
		f, ok := v.(float64)
		return ok && math.Float64bits(f) == d.uint64()
	case constantInt:
		i, ok := v.(int64)
		return ok && uint64(i) == d.uint64()
	case constantNumber:
		s, ok := v.(json.Number)
		return ok && string(s) == d.string()
	}
	return false
}

// equalPairs compares the n pairs of a map.
func (d *decoder) equalPairs(n uint64, m map[string]any) bool {
	if n != uint64(len(m)) || !d.enter() {
		return false
	}
	for range len(m) {
		have, ok := m[d.string()]
		if !ok || d.bad || !d.equalContent(have) {
			d.trail.add(mapPointer(m))
			return false
		}
	}
	d.depth--
	return !d.bad
}

// equalList compares the n elements of a list.
func (d *decoder) equalList(n uint64, l []any) bool {
	if n != uint64(len(l)) || !d.enter() {
		return false
	}
	for i := range l {
		if d.bad || !d.equalContent(l[i]) {
			d.trail.add(unsafe.Pointer(unsafe.SliceData(l)))
			return false
		}
	}
	d.depth--
	return !d.bad
}

// mapPointer returns where m is in memory.
func mapPointer(m map[string]any) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&m)) }
