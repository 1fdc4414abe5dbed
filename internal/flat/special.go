// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"math/big"
	"reflect"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// unixToInternal is the number of seconds between the start of the year 1, from which time.Time
// counts, and the Unix epoch.
const unixToInternal int64 = (1969*365 + 1969/4 - 1969/100 + 1969/400) * 86400

// formats are the formats of quantities that have a number.
var formats = [...]string{"", string(resource.DecimalSI), string(resource.BinarySI), string(resource.DecimalExponent)}

// formatOther marks a format that has no number and is written as a string.
const formatOther = len(formats)

// time writes a time.Time: a byte of flags, the time, and what its location needs. The lower two
// bits of the flags are the location. The next bit says that the time is whole seconds in 32 bits.
func (w *writer) time(p unsafe.Pointer) {
	t := (*timeMemory)(p)
	if *t != (timeMemory{}) {
		w.private++
	}
	zone, number := w.zone(t)
	seconds := t.ext - unixToInternal
	if t.wall == 0 && seconds >= 0 && seconds < 1<<32 {
		w.buf = append(w.buf, zone|timeShort, byte(seconds), byte(seconds>>8), byte(seconds>>16), byte(seconds>>24))
	} else {
		w.buf = append(w.buf, zone)
		w.uvarint(t.wall)
		w.varint(t.ext)
	}
	switch zone {
	case zoneNumbered:
		w.uvarint(uint64(number))
	case zoneFixed:
		name, offset := (*time.Time)(p).Zone()
		w.string(name)
		w.varint(int64(offset))
	}
}

// How the location of a time is written, and the flag of a short time.
const (
	zoneUTC      = 0 // no location
	zoneLocal    = 1
	zoneNumbered = 2 // kept by the dictionary
	zoneFixed    = 3 // name and offset
	zoneMask     = 3
	timeShort    = 4
)

// zone returns how the location of t is written.
func (w *writer) zone(t *timeMemory) (zone byte, number int) {
	switch t.loc {
	case nil:
		return zoneUTC, 0
	case time.Local:
		return zoneLocal, 0
	}
	name, offset := (*time.Time)(unsafe.Pointer(t)).Zone()
	if reflect.DeepEqual(time.FixedZone(name, offset), t.loc) {
		return zoneFixed, 0
	}
	if w.dict != nil {
		if i, ok := w.dict.Location(t.loc); ok {
			return zoneNumbered, i
		}
	}
	w.refuse("a time in the location " + t.loc.String() + ", which the dictionary has no room for")
	return zoneUTC, 0
}

// time reads a time.Time.
func (r *reader) time(p unsafe.Pointer) {
	t := (*timeMemory)(p)
	flags := r.byte()
	if flags&timeShort != 0 {
		t.ext = int64(r.uint32()) + unixToInternal
	} else {
		t.wall, t.ext = r.uvarint(), r.varint()
	}
	switch flags & zoneMask {
	case zoneLocal:
		t.loc = time.Local
	case zoneNumbered:
		i := r.uvarint()
		zones := r.annex.Dict.Zones()
		if i >= uint64(len(zones)) {
			r.fail()
			return
		}
		t.loc = zones[i]
	case zoneFixed:
		name := r.string()
		t.loc = time.FixedZone(name, int(r.varint()))
	}
}

// Flags of a quantity, above the number of its format.
const (
	quantityFormat = 7
	quantityScale  = 8
	quantityCached = 16
	quantityDec    = 32
)

// quantity writes a resource.Quantity: a byte of flags, and the fields that these announce.
func (w *writer) quantity(p unsafe.Pointer) {
	q := (*quantityMemory)(p)
	flags := byte(formatOther)
	for i, f := range formats {
		if q.format == f {
			flags = byte(i)
		}
	}
	other := flags == byte(formatOther)
	if q.scale != 0 {
		flags |= quantityScale
	}
	if q.cached != "" {
		flags |= quantityCached
	}
	if q.dec != nil {
		flags |= quantityDec
	}
	w.buf = append(w.buf, flags)
	w.varint(q.value)
	if q.scale != 0 {
		w.varint(int64(q.scale))
	}
	if other {
		w.string(q.format)
	}
	if q.cached != "" {
		w.string(q.cached)
	}
	if q.dec != nil {
		w.decimal((*resource.Quantity)(p))
	}
}

// decimal writes the arbitrary-precision number of q.
func (w *writer) decimal(q *resource.Quantity) {
	c := *q
	dec := c.AsDec() // the one that q holds: nothing is converted
	n := dec.UnscaledBig()
	w.buf = append(w.buf, byte(n.Sign()+1))
	w.string(string(n.Bytes()))
	w.varint(int64(dec.Scale()))
}

// quantity reads a resource.Quantity.
func (r *reader) quantity(p unsafe.Pointer) {
	q := (*quantityMemory)(p)
	flags := r.byte()
	q.value = r.varint()
	if flags&quantityScale != 0 {
		q.scale = int32(r.varint())
	}
	switch f := int(flags & quantityFormat); {
	case f == formatOther:
		q.format = r.string()
	case f > formatOther:
		r.fail()
	default:
		q.format = formats[f]
	}
	if flags&quantityCached != 0 {
		q.cached = r.string()
	}
	if flags&quantityDec != 0 {
		r.decimal(q)
	}
}

// decimal reads the arbitrary-precision number of q.
func (r *reader) decimal(q *quantityMemory) {
	sign := r.byte()
	n := new(big.Int).SetBytes([]byte(r.string()))
	if sign == 0 {
		n.Neg(n)
	}
	var holder resource.Quantity
	dec := holder.AsDec()
	dec.SetUnscaledBig(n)
	setScale(dec, r.varint())
	q.dec = (*quantityMemory)(unsafe.Pointer(&holder)).dec
}

// setScale sets the scale of an inf.Dec, whose package this one does not import.
func setScale[S ~int32, D interface{ SetScale(S) D }](dec D, scale int64) { dec.SetScale(S(scale)) }
