// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"reflect"
	"time"
	"unique"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// rawExtension writes the raw bytes. It refuses an extension that also holds a decoded object.
func (w *writer) rawExtension(r *runtime.RawExtension) {
	if r.Object != nil {
		w.refuse("a RawExtension with a decoded Object")
		return
	}
	if r.Raw == nil {
		w.buf = append(w.buf, 0)
		return
	}
	w.buf = append(w.buf, 1)
	w.bytes(r.Raw)
}

// handle writes the string behind a unique.Handle.
func (w *writer) handle(p unsafe.Pointer) {
	w.string((*(*unique.Handle[string])(p)).Value())
}

// time writes a time.Time: a byte of flags, the time, and what its location needs. The lower two
// bits of the flags are the location. The next bit says that the time is whole seconds in 32 bits.
func (w *writer) time(p unsafe.Pointer) {
	t := (*plan.TimeMemory)(p)
	if *t != (plan.TimeMemory{}) {
		w.private++
	}
	zone, number := w.zone(t)
	seconds := t.Ext - form.UnixToInternal
	if t.Wall == 0 && seconds >= 0 && seconds < 1<<32 {
		w.buf = append(w.buf, zone|form.TimeShort, byte(seconds), byte(seconds>>8), byte(seconds>>16), byte(seconds>>24))
	} else {
		w.buf = append(w.buf, zone)
		w.uvarint(t.Wall)
		w.varint(t.Ext)
	}
	switch zone {
	case form.ZoneNumbered:
		w.uvarint(uint64(number))
	case form.ZoneFixed:
		name, offset := (*time.Time)(p).Zone()
		w.string(name)
		w.varint(int64(offset))
	}
}

// zone returns how the location of t is written.
func (w *writer) zone(t *plan.TimeMemory) (zone byte, number int) {
	switch t.Loc {
	case nil:
		return form.ZoneUTC, 0
	case time.Local:
		return form.ZoneLocal, 0
	}
	name, offset := (*time.Time)(unsafe.Pointer(t)).Zone()
	if reflect.DeepEqual(time.FixedZone(name, offset), t.Loc) {
		return form.ZoneFixed, 0
	}
	if w.dict != nil {
		if i, ok := w.dict.Location(t.Loc); ok {
			return form.ZoneNumbered, i
		}
	}
	w.refuse("a time in the location " + t.Loc.String() + ", which the dictionary has no room for")
	return form.ZoneUTC, 0
}

// quantity writes a resource.Quantity: a byte of flags, and the fields that these announce.
func (w *writer) quantity(p unsafe.Pointer) {
	q := (*plan.QuantityMemory)(p)
	flags := byte(form.FormatOther)
	for i, f := range form.Formats {
		if q.Format == f {
			flags = byte(i)
		}
	}
	other := flags == byte(form.FormatOther)
	if q.Scale != 0 {
		flags |= form.QuantityScale
	}
	if q.Cached != "" {
		flags |= form.QuantityCached
	}
	if q.Dec != nil {
		flags |= form.QuantityDec
	}
	w.buf = append(w.buf, flags)
	w.varint(q.Value)
	if q.Scale != 0 {
		w.varint(int64(q.Scale))
	}
	if other {
		w.string(q.Format)
	}
	if q.Cached != "" {
		w.string(q.Cached)
	}
	if q.Dec != nil {
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
