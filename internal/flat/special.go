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
func (e *encoder) time(p unsafe.Pointer) {
	t := (*timeMemory)(p)
	if *t != (timeMemory{}) {
		e.private++
	}
	zone, number := e.zone(t)
	seconds := t.ext - unixToInternal
	if t.wall == 0 && seconds >= 0 && seconds < 1<<32 {
		e.buf = append(e.buf, zone|timeShort, byte(seconds), byte(seconds>>8), byte(seconds>>16), byte(seconds>>24))
	} else {
		e.buf = append(e.buf, zone)
		e.uvarint(t.wall)
		e.varint(t.ext)
	}
	switch zone {
	case zoneNumbered:
		e.uvarint(uint64(number))
	case zoneFixed:
		name, offset := (*time.Time)(p).Zone()
		e.string(name)
		e.varint(int64(offset))
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
func (e *encoder) zone(t *timeMemory) (zone byte, number int) {
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
	if e.dict != nil {
		if i, ok := e.dict.Location(t.loc); ok {
			return zoneNumbered, i
		}
	}
	e.refuse("a time in the location " + t.loc.String() + ", which the dictionary has no room for")
	return zoneUTC, 0
}

// time reads a time.Time.
func (d *decoder) time(p unsafe.Pointer) {
	t := (*timeMemory)(p)
	flags := d.byte()
	if flags&timeShort != 0 {
		t.ext = int64(d.uint32()) + unixToInternal
	} else {
		t.wall, t.ext = d.uvarint(), d.varint()
	}
	switch flags & zoneMask {
	case zoneLocal:
		t.loc = time.Local
	case zoneNumbered:
		i := d.uvarint()
		zones := d.annex.Dict.Zones()
		if i >= uint64(len(zones)) {
			d.fail()
			return
		}
		t.loc = zones[i]
	case zoneFixed:
		name := d.string()
		t.loc = time.FixedZone(name, int(d.varint()))
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
func (e *encoder) quantity(p unsafe.Pointer) {
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
	e.buf = append(e.buf, flags)
	e.varint(q.value)
	if q.scale != 0 {
		e.varint(int64(q.scale))
	}
	if other {
		e.string(q.format)
	}
	if q.cached != "" {
		e.string(q.cached)
	}
	if q.dec != nil {
		e.decimal((*resource.Quantity)(p))
	}
}

// decimal writes the arbitrary-precision number of q.
func (e *encoder) decimal(q *resource.Quantity) {
	c := *q
	dec := c.AsDec() // the one that q holds: nothing is converted
	n := dec.UnscaledBig()
	e.buf = append(e.buf, byte(n.Sign()+1))
	e.string(string(n.Bytes()))
	e.varint(int64(dec.Scale()))
}

// quantity reads a resource.Quantity.
func (d *decoder) quantity(p unsafe.Pointer) {
	q := (*quantityMemory)(p)
	flags := d.byte()
	q.value = d.varint()
	if flags&quantityScale != 0 {
		q.scale = int32(d.varint())
	}
	switch f := int(flags & quantityFormat); {
	case f == formatOther:
		q.format = d.string()
	case f > formatOther:
		d.fail()
	default:
		q.format = formats[f]
	}
	if flags&quantityCached != 0 {
		q.cached = d.string()
	}
	if flags&quantityDec != 0 {
		d.decimal(q)
	}
}

// decimal reads the arbitrary-precision number of q.
func (d *decoder) decimal(q *quantityMemory) {
	sign := d.byte()
	n := new(big.Int).SetBytes([]byte(d.string()))
	if sign == 0 {
		n.Neg(n)
	}
	var holder resource.Quantity
	dec := holder.AsDec()
	dec.SetUnscaledBig(n)
	setScale(dec, d.varint())
	q.dec = (*quantityMemory)(unsafe.Pointer(&holder)).dec
}

// setScale sets the scale of an inf.Dec, whose package this one does not import.
func setScale[S ~int32, D interface{ SetScale(S) D }](dec D, scale int64) { dec.SetScale(S(scale)) }
