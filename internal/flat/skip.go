// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

// skip skips the value that decoder.value would read. It does not look into dictionary entries.
func (d *decoder) skip(t *plan) {
	switch t.kind {
	case kindBool:
		d.byte()
	case kindFloat32:
		d.over(4)
	case kindFloat64:
		d.over(8)
	case kindString, kindHandle:
		d.skipString()
	case kindBytes:
		d.skipBytes()
	case kindPointer:
		if d.enter() {
			d.skipElement(t.elem)
			d.depth--
		}
	case kindSlice:
		d.skipSlice(t.elem)
	case kindArray:
		d.skipElements(t.elem, uint64(t.count))
	case kindStruct:
		if !t.shared || d.uvarint()&1 == 0 {
			d.skipStructure(t.fields)
		}
	case kindStringMap, kindQuantityMap, kindMap:
		d.skipMap(t)
	case kindContentMap, kindContent:
		d.skipContent()
	case kindTime:
		d.skipTime()
	case kindQuantity:
		d.skipQuantity()
	case kindRawExtension:
		if d.byte() != 0 {
			d.skipBytes()
		}
	default: // the integers
		d.uvarint()
	}
}

// over skips n bytes.
func (r *reader) over(n uint64) {
	if n > uint64(len(r.buf)-r.pos) {
		r.fail()
		return
	}
	r.pos += int(n)
}

// skipStructure is skip for structure.
func (d *decoder) skipStructure(s *structPlan) {
	for i := range s.groups {
		g := &s.groups[i]
		set := d.bitmap(g)
		for n := 0; set != 0; n, set = n+1, set>>1 {
			if set&1 != 0 {
				d.skipField(&g.fields[n])
			}
		}
	}
}

// skipField skips a field whose bit is set in the bitmap.
func (d *decoder) skipField(f *field) {
	switch f.kind {
	case kindBool: // the bit says it all
	case kindStruct:
		d.skipStructure(f.plan.fields)
	case kindSection:
		d.base = d.pos // the pieces of byte slices refer to one another
		d.skipStructure(f.plan.fields)
		d.base = 0
	default:
		d.skip(f.plan)
	}
}

// skipElement is skip for element.
func (d *decoder) skipElement(t *plan) {
	if t.nillable() && d.byte() == 0 {
		return
	}
	d.skip(t)
}

// skipElements skips n elements, each of which takes at least a byte.
func (d *decoder) skipElements(t *plan, n uint64) {
	for i := uint64(0); i < n && !d.bad; i++ {
		d.skipElement(t)
	}
}

// skipSlice skips a slice with elements of plan t.
func (d *decoder) skipSlice(t *plan) {
	h := d.uvarint()
	if h&1 == 0 && d.enter() {
		d.skipElements(t, h>>1)
		d.depth--
	}
}

// skipMap skips a map that is not content.
func (d *decoder) skipMap(t *plan) {
	h := d.uvarint()
	if h&1 != 0 || !d.enter() {
		return
	}
	for i := uint64(0); i < h>>1 && !d.bad; i++ {
		switch t.kind {
		case kindStringMap:
			d.skipString()
			d.skipString()
		case kindQuantityMap:
			d.skipString()
			d.skipQuantity()
		default:
			d.skip(t.key)
			d.skipElement(t.elem)
		}
	}
	d.depth--
}

// skipString skips a string.
func (d *decoder) skipString() {
	from := d.pos
	d.skipStringAfter(d.uvarint(), from)
}

// skipStringAfter skips the string that h announces; h stands at from.
func (d *decoder) skipStringAfter(h uint64, from int) {
	switch {
	case h&1 != 0:
	case h&2 == 0:
		d.over(h >> 2)
	default:
		d.compareReference(h>>2, from)
	}
}

// skipBytes skips a byte slice.
func (d *decoder) skipBytes() {
	from := d.pos
	h := d.uvarint()
	if h != markPieces {
		d.skipStringAfter(h, from)
		return
	}
	for n := d.uvarint(); n > 0 && !d.bad; {
		from := d.pos
		h := d.uvarint()
		s := d.stringAfter(h)
		if len(s) == 0 || uint64(len(s)) > n {
			d.fail()
			return
		}
		if h&3 == 2 {
			d.compareReference(h>>2, from)
		}
		n -= uint64(len(s))
	}
}

// skipTime skips a time.
func (d *decoder) skipTime() {
	flags := d.byte()
	if flags&timeShort != 0 {
		d.over(4)
	} else {
		d.uvarint()
		d.uvarint()
	}
	switch flags & zoneMask {
	case zoneNumbered:
		d.uvarint()
	case zoneFixed:
		d.skipString()
		d.uvarint()
	}
}

// skipQuantity skips a quantity.
func (d *decoder) skipQuantity() {
	flags := d.byte()
	d.uvarint()
	if flags&quantityScale != 0 {
		d.uvarint()
	}
	if flags&quantityFormat == byte(formatOther) {
		d.skipString()
	}
	if flags&quantityCached != 0 {
		d.skipString()
	}
	if flags&quantityDec != 0 {
		d.byte()
		d.skipString()
		d.uvarint()
	}
}

// skipContent skips a content value.
func (d *decoder) skipContent() {
	h := d.uvarint()
	n := h >> contentBits
	switch h & contentMask {
	case contentText:
		d.skipString()
	case contentConstant:
		switch n {
		case constantFloat, constantInt:
			d.over(8)
		case constantNumber:
			d.skipString()
		}
	case contentMap, contentList:
		if !d.enter() {
			return
		}
		for i := uint64(0); i < n && !d.bad; i++ {
			if h&contentMask == contentMap {
				d.skipString()
			}
			d.skipContent()
		}
		d.depth--
	}
}
