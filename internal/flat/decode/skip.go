// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// same skips a value of plan t in both objects and returns true if the two are equal. If they
// differ, it moves neither decoder.
func (d *decoder) same(t *plan.Plan) bool {
	b := d.other
	from, other := d.mark(), b.mark()
	b.apart, b.compared = false, b.pos
	b.skip(t)
	b.compare(b.pos)
	same := !b.apart && !b.bad
	b.apart = true
	if !same {
		d.back(from)
		b.back(other)
	}
	return same
}

// skip skips the value that decoder.value would read. It does not look into dictionary entries.
func (d *decoder) skip(t *plan.Plan) {
	switch t.Kind {
	case plan.KindBool:
		d.byte()
	case plan.KindFloat32:
		d.over(4)
	case plan.KindFloat64:
		d.over(8)
	case plan.KindString, plan.KindHandle:
		d.skipString()
	case plan.KindBytes:
		d.skipBytes()
	case plan.KindPointer:
		if d.enter() {
			d.skipElement(t.Elem)
			d.depth--
		}
	case plan.KindSlice:
		d.skipSlice(t.Elem)
	case plan.KindArray:
		d.skipElements(t.Elem, uint64(t.Count))
	case plan.KindStruct:
		if !t.Shared || d.uvarint()&1 == 0 {
			d.skipStructure(t.Fields)
		}
	case plan.KindStringMap, plan.KindQuantityMap, plan.KindMap:
		d.skipMap(t)
	case plan.KindContentMap, plan.KindContent:
		d.skipContent()
	case plan.KindTime:
		d.skipTime()
	case plan.KindQuantity:
		d.skipQuantity()
	case plan.KindRawExtension:
		if d.byte() != 0 {
			d.skipBytes()
		}
	default: // the integers
		d.uvarint()
	}
}

// skipStructure is skip for structure.
func (d *decoder) skipStructure(s *plan.Struct) {
	for i := range s.Groups {
		g := &s.Groups[i]
		set := d.bitmap(g)
		for n := 0; set != 0; n, set = n+1, set>>1 {
			if set&1 != 0 {
				d.skipField(&g.Fields[n])
			}
		}
	}
}

// skipField skips a field whose bit is set in the bitmap.
func (d *decoder) skipField(f *plan.Field) {
	switch f.Kind {
	case plan.KindBool: // the bit says it all
	case plan.KindStruct:
		d.skipStructure(f.Plan.Fields)
	case plan.KindSection:
		d.base = d.pos // the pieces of byte slices refer to one another
		d.skipStructure(f.Plan.Fields)
		d.base = 0
	default:
		d.skip(f.Plan)
	}
}

// skipElement is skip for element.
func (d *decoder) skipElement(t *plan.Plan) {
	if t.Nillable() && d.byte() == 0 {
		return
	}
	d.skip(t)
}

// skipElements skips n elements, each of which takes at least a byte.
func (d *decoder) skipElements(t *plan.Plan, n uint64) {
	for i := uint64(0); i < n && !d.bad; i++ {
		d.skipElement(t)
	}
}

// skipSlice skips a slice with elements of plan t.
func (d *decoder) skipSlice(t *plan.Plan) {
	h := d.uvarint()
	if h&1 == 0 && d.enter() {
		d.skipElements(t, h>>1)
		d.depth--
	}
}

// skipMap skips a map that is not content.
func (d *decoder) skipMap(t *plan.Plan) {
	h := d.uvarint()
	if h&1 != 0 || !d.enter() {
		return
	}
	for i := uint64(0); i < h>>1 && !d.bad; i++ {
		switch t.Kind {
		case plan.KindStringMap:
			d.skipString()
			d.skipString()
		case plan.KindQuantityMap:
			d.skipString()
			d.skipQuantity()
		default:
			d.skip(t.Key)
			d.skipElement(t.Elem)
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
	if h != form.MarkPieces {
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
	if flags&form.TimeShort != 0 {
		d.over(4)
	} else {
		d.uvarint()
		d.uvarint()
	}
	switch flags & form.ZoneMask {
	case form.ZoneNumbered:
		d.uvarint()
	case form.ZoneFixed:
		d.skipString()
		d.uvarint()
	}
}

// skipQuantity skips a quantity.
func (d *decoder) skipQuantity() {
	flags := d.byte()
	d.uvarint()
	if flags&form.QuantityScale != 0 {
		d.uvarint()
	}
	if flags&form.QuantityFormat == byte(form.FormatOther) {
		d.skipString()
	}
	if flags&form.QuantityCached != 0 {
		d.skipString()
	}
	if flags&form.QuantityDec != 0 {
		d.byte()
		d.skipString()
		d.uvarint()
	}
}

// skipContent skips a content value.
func (d *decoder) skipContent() {
	h := d.uvarint()
	n := h >> form.ContentBits
	switch h & form.ContentMask {
	case form.ContentText:
		d.skipString()
	case form.ContentConstant:
		switch n {
		case form.ConstantFloat, form.ConstantInt:
			d.over(8)
		case form.ConstantNumber:
			d.skipString()
		}
	case form.ContentMap, form.ContentList:
		if !d.enter() {
			return
		}
		for i := uint64(0); i < n && !d.bad; i++ {
			if h&form.ContentMask == form.ContentMap {
				d.skipString()
			}
			d.skipContent()
		}
		d.depth--
	}
}
