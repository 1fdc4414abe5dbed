// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// document reads the content of an unstructured object.
func (d *decoder) document(into *map[string]any) {
	switch d.byte() {
	case 0:
	case 1:
		m, ok := d.content().(map[string]any)
		if !ok {
			d.fail()
		}
		*into = m
	case 2:
		meta := d.content()
		h := d.uvarint()
		if h&form.ContentMask != form.ContentMap {
			d.fail()
			return
		}
		*into = d.contentPairs(h>>form.ContentBits, 1)
		if *into != nil {
			(*into)["metadata"] = meta
		}
	default:
		d.fail()
	}
}

// content reads one value.
func (d *decoder) content() any {
	h := d.uvarint()
	n := h >> form.ContentBits
	switch h & form.ContentMask {
	case form.ContentEntry:
		// Entries never move or change, so an interface can refer to them.
		if s := d.view.Pointer(n); s != nil {
			return boxString(s)
		}
	case form.ContentText:
		return boxString(d.memory.header(d.string()))
	case form.ContentConstant:
		return d.constant(n)
	case form.ContentInt:
		return d.boxInt(int64(n>>1) ^ -int64(n&1))
	case form.ContentMap:
		if m := d.contentPairs(n, 0); m != nil {
			return m
		}
	case form.ContentList:
		if l := d.contentList(n); l != nil {
			return l
		}
	case form.ContentShared:
		if back, ok := d.shared(n); ok {
			v := d.content()
			d.leave(back)
			return v
		}
	}
	d.fail()
	return nil
}

// constant reads a value whose tag is ContentConstant.
func (d *decoder) constant(n uint64) any {
	switch n {
	case form.ConstantNil:
		return nil
	case form.ConstantFalse:
		return false
	case form.ConstantTrue:
		return true
	case form.ConstantNilMap:
		return map[string]any(nil)
	case form.ConstantNilList:
		return []any(nil)
	case form.ConstantFloat:
		p := d.memory.carve(8, 8)
		*(*uint64)(p) = d.uint64()
		return plan.Boxed(plan.TypeWordFloat, p)
	case form.ConstantInt:
		return d.boxInt(int64(d.uint64()))
	case form.ConstantNumber:
		return plan.Boxed(plan.TypeWordNumber, unsafe.Pointer(d.memory.header(d.string())))
	}
	d.fail()
	return nil
}

// contentPairs reads n pairs into a new map with room for extra more pairs. It returns nil if it
// fails.
func (d *decoder) contentPairs(n uint64, extra int) map[string]any {
	if n > uint64(len(d.buf)-d.pos) || !d.charge(48+form.ContentPair*int(n)) || !d.enter() {
		d.fail()
		return nil
	}
	m := make(map[string]any, int(n)+extra)
	for i := uint64(0); i < n && !d.bad; i++ {
		k := d.string()
		m[k] = d.content()
	}
	d.depth--
	return m
}

// contentList reads n values into a new list. It returns nil if it fails.
func (d *decoder) contentList(n uint64) []any {
	if n > uint64(len(d.buf)-d.pos) || !d.charge(24+16*int(n)) || !d.enter() {
		d.fail()
		return nil
	}
	l := make([]any, n)
	for i := range l {
		l[i] = d.content()
		if d.bad {
			break
		}
	}
	d.depth--
	return l
}

// boxString returns the interface that holds *s. That string must never change.
func boxString(s *string) any { return plan.Boxed(plan.TypeWordString, unsafe.Pointer(s)) }

// boxInt returns v as an interface, whose memory is in the chunk for pointer-free values.
func (d *decoder) boxInt(v int64) any {
	p := d.memory.carve(8, 8)
	*(*int64)(p) = v
	return plan.Boxed(plan.TypeWordInt, p)
}
