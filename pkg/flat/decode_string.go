// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"unique"
	"unsafe"
)

// string reads a string. It points into the object or the dictionary.
func (d *decoder) string() string {
	h := d.uvarint()
	if h&1 != 0 {
		if s := d.view.pointer(h >> 1); s != nil {
			return *s
		}
		d.fail()
		return ""
	}
	if h&2 != 0 {
		return d.earlier(h >> 2)
	}
	n := h >> 2
	if n > uint64(len(d.buf)-d.pos) {
		d.fail()
		return ""
	}
	s := d.buf[d.pos : d.pos+int(n)]
	d.pos += int(n)
	return s
}

// earlier returns the string that stands inline at a position of the object.
func (d *decoder) earlier(at uint64) string {
	if at >= uint64(len(d.body)) {
		d.fail()
		return ""
	}
	there := decoder{buf: d.body, pos: int(at)}
	h := there.uvarint()
	n := h >> 2
	if h&3 != 0 || there.bad || n > uint64(len(there.buf)-there.pos) {
		d.fail()
		return ""
	}
	return there.buf[there.pos : there.pos+int(n)]
}

// bytes reads a string and returns a copy of its bytes, never nil.
func (d *decoder) bytes() []byte {
	s := d.string()
	n := uintptr(len(s))
	if n == 0 {
		return []byte{}
	}
	if !d.charge(len(s)) {
		return nil
	}
	if n > carveLimit {
		return []byte(s)
	}
	out := unsafe.Slice((*byte)(d.carve(n, 1)), n)
	copy(out, s)
	return out
}

// handle reads the string behind a unique.Handle.
func (d *decoder) handle(p unsafe.Pointer) {
	*(*unique.Handle[string])(p) = unique.Make(d.string())
}
