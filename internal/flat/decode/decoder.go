// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/form"
)

// decoder reads one Object into Go values.
type decoder struct {
	reader
	memory memory
	comparison
}

// comparison is the state of a comparison with another object, see Reusing.
type comparison struct {
	other    *decoder // reads the other object
	sections string   // of this one: its table, see Sections
	compared int      // where in buf the bytes that are not yet compared begin
	apart    bool     // the values differ, or no comparison goes on
}

// open starts reading o, and expects to allocate each value when it is needed.
func (d *decoder) open(o Object, h *header) bool {
	if !d.reader.open(o, h) {
		return false
	}
	d.memory.large = d.annex.Parts != nil
	return true
}

// bytes reads a byte slice that is not nil. The result is a copy.
func (d *decoder) bytes() []byte {
	h := d.uvarint()
	if h == form.MarkPieces {
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
	case n > form.CarveLimit:
		return make([]byte, n)
	default:
		return unsafe.Slice((*byte)(d.memory.carve(uintptr(n), 1)), n)
	}
}
