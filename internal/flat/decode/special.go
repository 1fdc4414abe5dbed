// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"math/big"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// time reads a time.Time.
func (r *reader) time(p unsafe.Pointer) {
	t := (*plan.TimeMemory)(p)
	flags := r.byte()
	if flags&form.TimeShort != 0 {
		t.Ext = int64(r.uint32()) + form.UnixToInternal
	} else {
		t.Wall, t.Ext = r.uvarint(), r.varint()
	}
	switch flags & form.ZoneMask {
	case form.ZoneLocal:
		t.Loc = time.Local
	case form.ZoneNumbered:
		i := r.uvarint()
		zones := r.annex.Dict.Zones()
		if i >= uint64(len(zones)) {
			r.fail()
			return
		}
		t.Loc = zones[i]
	case form.ZoneFixed:
		name := r.string()
		t.Loc = time.FixedZone(name, int(r.varint()))
	}
}

// quantity reads a resource.Quantity.
func (r *reader) quantity(p unsafe.Pointer) {
	q := (*plan.QuantityMemory)(p)
	flags := r.byte()
	q.Value = r.varint()
	if flags&form.QuantityScale != 0 {
		q.Scale = int32(r.varint())
	}
	switch f := int(flags & form.QuantityFormat); {
	case f == form.FormatOther:
		q.Format = r.string()
	case f > form.FormatOther:
		r.fail()
	default:
		q.Format = form.Formats[f]
	}
	if flags&form.QuantityCached != 0 {
		q.Cached = r.string()
	}
	if flags&form.QuantityDec != 0 {
		r.decimal(q)
	}
}

// decimal reads the arbitrary-precision number of q.
func (r *reader) decimal(q *plan.QuantityMemory) {
	sign := r.byte()
	n := new(big.Int).SetBytes([]byte(r.string()))
	if sign == 0 {
		n.Neg(n)
	}
	var holder resource.Quantity
	dec := holder.AsDec()
	dec.SetUnscaledBig(n)
	setScale(dec, r.varint())
	q.Dec = (*plan.QuantityMemory)(unsafe.Pointer(&holder)).Dec
}

// setScale sets the scale of an inf.Dec, whose package this one does not import.
func setScale[S ~int32, D interface{ SetScale(S) D }](dec D, scale int64) { dec.SetScale(S(scale)) }
