// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import "strings"

// reusingDepth is the depth down to which values are compared. Each level compares all bytes below
// it, so the cost grows with the depth.
const reusingDepth = 16

// mark is the position and the depth of a decoder.
type mark struct {
	place
	depth int
}

// mark returns the position and the depth of d.
func (d *decoder) mark() mark { return mark{place{d.buf, d.pos}, d.depth} }

// back returns d to m, unless d failed meanwhile.
func (d *decoder) back(m mark) {
	if !d.bad {
		d.buf, d.pos, d.depth = m.buf, m.pos, m.depth
	}
}

// compare checks that the other object has the same bytes as d has between the last comparison and
// end, and skips them there. The bytes of a value say where the value ends, so a value that begins
// with all bytes of another value is equal to it.
func (d *decoder) compare(end int) {
	if d.apart || d.bad {
		return
	}
	b, span := d.other, d.buf[d.compared:end]
	if !strings.HasPrefix(b.buf[b.pos:], span) {
		d.apart = true
		return
	}
	b.pos += len(span)
}

// compareReference compares a reference to an earlier string, which d has just read at from. Two
// references are equal if their strings are equal, at whatever positions these stand.
func (d *decoder) compareReference(at uint64, from int) {
	if d.compare(from); d.apart || d.bad {
		return
	}
	b := d.other
	h := b.uvarint()
	here, ok := d.stringAt(at)
	there, found := b.stringAt(h >> 2)
	d.apart = h&3 != 2 || !ok || !found || here != there
	d.compared = d.pos
}
