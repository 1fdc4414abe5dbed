// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"unique"
	"unsafe"
)

// string reads a string. It points into the object or the dictionary.
func (r *reader) string() string { return r.stringAfter(r.uvarint()) }

// stringAfter reads the string that h announces.
func (r *reader) stringAfter(h uint64) string {
	if h&1 != 0 {
		if s := r.view.Pointer(h >> 1); s != nil {
			return *s
		}
		r.fail()
		return ""
	}
	if h&2 != 0 {
		return r.earlier(h >> 2)
	}
	n := h >> 2
	if n > uint64(len(r.buf)-r.pos) {
		r.fail()
		return ""
	}
	s := r.buf[r.pos : r.pos+int(n)]
	r.pos += int(n)
	if len(r.buf) > pinLimit {
		return r.clone(s)
	}
	return s
}

// earlier returns the string that stands inline at another position.
func (r *reader) earlier(at uint64) string {
	s, ok := r.stringAt(at)
	if !ok {
		r.fail()
	}
	return s
}

// bytes reads a byte slice that is not nil. The result is a copy.
func (d *decoder) bytes() []byte {
	h := d.uvarint()
	if h == markPieces {
		return d.pieces()
	}
	s := d.stringAfter(h)
	out := d.room(uint64(len(s)))
	copy(out, s)
	return out
}

// pieces reads a byte slice that is written as several strings.
func (d *decoder) pieces() []byte {
	out := d.room(d.uvarint())
	for rest := out; len(rest) > 0; {
		s := d.string()
		if len(s) == 0 || len(s) > len(rest) {
			d.fail()
			break
		}
		rest = rest[copy(rest, s):]
	}
	return out
}

// room returns a new slice of n bytes, or an empty one if n is too large.
func (d *decoder) room(n uint64) []byte {
	switch {
	case n == 0 || n > uint64(d.budget) || !d.charge(int(n)):
		if n != 0 {
			d.fail()
		}
		return []byte{}
	case n > carveLimit:
		return make([]byte, n)
	default:
		return unsafe.Slice((*byte)(d.memory.carve(uintptr(n), 1)), n)
	}
}

// handle reads the string behind a unique.Handle.
func (r *reader) handle(p unsafe.Pointer) {
	*(*unique.Handle[string])(p) = unique.Make(r.string())
}
