// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/json"
	"unsafe"
)

// document reads what encoder.document wrote.
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
		if h&contentMask != contentMap {
			d.fail()
			return
		}
		*into = d.contentPairs(h>>contentBits, 1)
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
	n := h >> contentBits
	switch h & contentMask {
	case contentEntry:
		// Entries never move or change, so an interface can refer to them.
		if s := d.view.Pointer(n); s != nil {
			return boxString(s)
		}
	case contentText:
		return boxString(d.memory.header(d.string()))
	case contentConstant:
		return d.constant(n)
	case contentInt:
		return d.boxInt(int64(n>>1) ^ -int64(n&1))
	case contentMap:
		if m := d.contentPairs(n, 0); m != nil {
			return m
		}
	case contentList:
		if l := d.contentList(n); l != nil {
			return l
		}
	case contentShared:
		if back, ok := d.shared(n); ok {
			v := d.content()
			d.leave(back)
			return v
		}
	}
	d.fail()
	return nil
}

// constant reads a value whose tag is contentConstant.
func (d *decoder) constant(n uint64) any {
	switch n {
	case constantNil:
		return nil
	case constantFalse:
		return false
	case constantTrue:
		return true
	case constantNilMap:
		return map[string]any(nil)
	case constantNilList:
		return []any(nil)
	case constantFloat:
		p := d.memory.carve(8, 8)
		*(*uint64)(p) = d.uint64()
		return boxed(typeWordFloat, p)
	case constantInt:
		return d.boxInt(int64(d.uint64()))
	case constantNumber:
		return boxed(typeWordNumber, unsafe.Pointer(d.memory.header(d.string())))
	}
	d.fail()
	return nil
}

// contentPairs reads n pairs into a new map with room for extra more pairs. It returns nil if it
// fails.
func (d *decoder) contentPairs(n uint64, extra int) map[string]any {
	if n > uint64(len(d.buf)-d.pos) || !d.charge(48+contentPair*int(n)) || !d.enter() {
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

// The type words of the interfaces that content puts values into.
var (
	typeWordString = typeWord("")
	typeWordInt    = typeWord(int64(0))
	typeWordFloat  = typeWord(float64(0))
	typeWordNumber = typeWord(json.Number(""))
)

// boxed returns the interface that holds the value at p. That value must never change.
func boxed(typ, p unsafe.Pointer) (v any) {
	*(*interfaceHeader)(unsafe.Pointer(&v)) = interfaceHeader{typ: typ, data: p}
	return v
}

// boxString returns the interface that holds *s. That string must never change.
func boxString(s *string) any { return boxed(typeWordString, unsafe.Pointer(s)) }

// boxInt returns v as an interface, whose memory is in the chunk for pointer-free values.
func (d *decoder) boxInt(v int64) any {
	p := d.memory.carve(8, 8)
	*(*int64)(p) = v
	return boxed(typeWordInt, p)
}
