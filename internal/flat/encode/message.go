// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"
	"math"

	"github.com/tarn-dev/tarn/internal/flat/decode"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// section writes the section of a message, or copies it from the state before. It says whether a field
// of it is not zero.
func (e *MessageEncoder) section(f *plan.Field, v *wire.Value, b []byte) bool {
	s := e.sections
	if !s.noting || len(b) < leastSection || s.n == len(s.all) || e.err != nil {
		return e.sectionAnew(f, v, b)
	}
	now := section{hash: hashOf(f, b), at: len(e.buf)}
	if bytes, needs, ok := s.before.Find(now.hash); ok && e.addNeeds(needs) {
		e.buf = append(e.buf, bytes...)
		now.size, now.needs, s.copied = len(bytes), needs, true
	} else {
		s.aside, e.needs = e.needs, s.aside
		e.needs.reset()
		if !e.sectionAnew(f, v, b) {
			e.needs, s.aside = s.aside, e.needs
			return false
		}
		now.size, now.needs = len(e.buf)-now.at, s.needsOf(&e.writer)
		e.needs, s.aside = s.aside, e.needs
		e.addNeeds(now.needs)
	}
	s.all[s.n] = now
	s.n++
	return true
}

// sectionAnew writes the section of a message.
func (e *MessageEncoder) sectionAnew(f *plan.Field, v *wire.Value, b []byte) bool {
	at := len(e.buf)
	outer := e.inlined.enter(at)
	found := e.structure(v.Message, b)
	e.inlined.scope = outer
	if !found {
		e.buf = e.buf[:at]
	}
	return found
}

// Encode returns the flat form of the object of a message. Previous, which may be nil, returns an earlier state of the object, or the
// zero Object; it is called at most once, and must not keep its arguments. What is the same there
// is copied. The error is ErrUnusualMessage or a *ValueError.
func (e *MessageEncoder) Encode(message []byte, dict *dictionary.Dictionary, previous func(namespace, name string) decode.Object) (decode.Object, error) {
	defer e.sections.forget()
	e.sections.previous = previous
	e.known.begin()
	e.again(message, dict)
	table := e.sections.table(&e.writer)
	if table == nil && e.sections.copied { // what was copied cannot be split
		e.again(message, dict)
	}
	return e.finish(dict, table)
}

// again writes the message from its beginning.
func (e *MessageEncoder) again(message []byte, dict *dictionary.Dictionary) {
	e.sections.forget()
	e.reset(dict)
	e.scan.slots = e.scan.slots[:0]
	e.document(message)
	e.sections.previous = nil
}

// document writes the message of the object: its metadata, and then the rest.
func (e *MessageEncoder) document(message []byte) {
	if uint64(len(message)) > math.MaxUint32 || !e.open(e.scan.plan.Root, message) {
		e.unusual()
		return
	}
	at := e.scan.slots[len(e.scan.plan.Root.Values)]
	metadata := message[at.Start:at.End]
	base := len(e.scan.slots)
	if !e.open(e.scan.plan.Metadata, metadata) {
		return
	}
	text := func(field int) string { s := e.scan.slots[base+field]; return form.StringOf(metadata[s.Start:s.End]) }
	e.owner = e.identity(text(plan.MetaUID), text(plan.MetaNamespace), text(plan.MetaName))
	e.sections.begin(text(plan.MetaNamespace), text(plan.MetaName), len(message), e.root, e.dict)
	e.written(e.scan.plan.Metadata, metadata, base)
	e.written(e.scan.plan.Root, message, 0)
}

// structure writes the fields of a struct. It says whether a field is not zero.
func (e *MessageEncoder) structure(m *wire.Message, message []byte) bool {
	base := len(e.scan.slots)
	return e.open(m, message) && e.written(m, message, base)
}

// written writes the fields of a message that was opened, whose slots begin at base, and closes it.
func (e *MessageEncoder) written(m *wire.Message, message []byte, base int) (found bool) {
	i := 0
	for n := range m.Plan.Groups {
		g := &m.Plan.Groups[n]
		at, bits := len(e.buf), uint64(0)
		e.buf = append(e.buf, zeros[:g.Width]...)
		for k := range g.Fields {
			if s := e.scan.slots[base+i]; s.N > 0 && e.field(&g.Fields[k], m.Values[i], message[s.Start:s.End], int(s.N)) {
				bits |= 1 << k
			}
			i++
		}
		for b := range g.Width {
			e.buf[at+b] = byte(bits >> (8 * b))
		}
		found = found || bits != 0
	}
	e.scan.slots = e.scan.slots[:base]
	e.depth--
	return found
}

// field writes a field that stands in the message, unless it is zero, and says whether it is not.
func (e *MessageEncoder) field(f *plan.Field, v *wire.Value, b []byte, n int) bool {
	if v.Own != 0 {
		p := e.read(v.Own, b)
		if zero(f.Plan, p) {
			return false
		}
		e.Encoder.body(f.Plan, p)
		return true
	}
	switch f.Kind {
	case plan.KindString:
		if len(b) == 0 {
			return false
		}
		e.string(form.StringOf(b))
	case plan.KindBytes, plan.KindPointer, plan.KindSlice, plan.KindStringMap, plan.KindQuantityMap, plan.KindMap:
		e.body(v, b, n)
	case plan.KindStruct:
		at := len(e.buf)
		if !e.structure(v.Message, b) {
			e.buf = e.buf[:at]
			return false
		}
	case plan.KindSection:
		return e.section(f, v, b)
	default:
		number := e.number(f.Kind, b)
		if number == 0 {
			return false
		}
		if f.Kind != plan.KindBool { // the bit says it all
			e.scalar(f.Kind, number)
		}
	}
	return true
}

// body writes a value.
func (e *MessageEncoder) body(v *wire.Value, b []byte, n int) {
	switch {
	case v.Own != 0:
		e.Encoder.body(v.Plan, e.read(v.Own, b))
		return
	case e.err != nil:
		return
	}
	switch v.Plan.Kind {
	case plan.KindString:
		e.string(form.StringOf(b))
	case plan.KindBytes:
		e.bytes(b)
	case plan.KindPointer:
		e.pointee(v.Elem, b)
	case plan.KindStruct:
		if v.Plan.Shared {
			e.shareable(v, b, n)
		} else {
			e.structure(v.Message, b)
		}
	case plan.KindSlice, plan.KindStringMap, plan.KindQuantityMap, plan.KindMap:
		e.shareable(v, b, n)
	default:
		e.scalar(v.Plan.Kind, e.number(v.Plan.Kind, b))
	}
}

// shareable writes a value that may be in the dictionary as a whole. What it adds to the needs is the same whether it is known or
// not.
func (e *MessageEncoder) shareable(v *wire.Value, b []byte, n int) {
	if !e.lookable(v, b) {
		e.anew(v, b, n)
		return
	}
	noscan := e.needs.noscan
	e.needs.noscan = aligned(noscan)
	e.lookedFor(v, b, n)
	if e.needs.noscan == aligned(noscan) { // nothing was aligned
		e.needs.noscan = noscan
	}
}

// lookedFor writes a value that is known, or learns what is written.
func (e *MessageEncoder) lookedFor(v *wire.Value, b []byte, n int) {
	if e.known.values == nil {
		e.anew(v, b, n)
		return
	}
	switch hash, place := e.place(v, b); {
	case place.hash == hash && place.size > 0:
		place.used = true
		e.addKnown(place)
	case place.used: // it stays for now
		place.used = false
		e.anew(v, b, n)
	default:
		at, private, before := len(e.buf), e.private, e.needs.note()
		e.anew(v, b, n)
		e.learn(hash, place, at, private, &before)
	}
}

// anew writes a value that is not known.
func (e *MessageEncoder) anew(v *wire.Value, b []byte, n int) {
	switch v.Plan.Kind {
	case plan.KindSlice:
		e.slice(v.Elem, b, n)
	case plan.KindStruct:
		e.whole(v, b)
	case plan.KindStringMap:
		e.stringMap(b, n)
	case plan.KindQuantityMap:
		e.quantityMap(v, b, n)
	case plan.KindMap:
		e.anyMap(v, b, n)
	}
}

// scalar writes a number or bool that has these bits.
func (e *MessageEncoder) scalar(k plan.Kind, bits uint64) {
	switch k {
	case plan.KindBool:
		e.buf = append(e.buf, byte(bits))
	case plan.KindInt8:
		e.varint(int64(int8(bits)))
	case plan.KindInt16:
		e.varint(int64(int16(bits)))
	case plan.KindInt32:
		e.varint(int64(int32(bits)))
	case plan.KindInt64:
		e.varint(int64(bits))
	case plan.KindFloat32:
		e.buf = binary.LittleEndian.AppendUint32(e.buf, uint32(bits))
	case plan.KindFloat64:
		e.buf = binary.LittleEndian.AppendUint64(e.buf, bits)
	default:
		e.uvarint(bits)
	}
}

// element writes a value that could be nil, but is not.
func (e *MessageEncoder) element(v *wire.Value, b []byte) {
	if v.Plan.Nillable() {
		e.buf = append(e.buf, 1)
	}
	e.body(v, b, 1)
}

// whole writes a struct that may be in the dictionary.
func (e *MessageEncoder) whole(v *wire.Value, b []byte) {
	at, before := len(e.buf), e.private
	e.buf = append(e.buf, 0)
	e.structure(v.Message, b)
	e.share(at, before)
}

// pointee writes what a pointer points to.
func (e *MessageEncoder) pointee(v *wire.Value, b []byte) {
	if !e.enter() {
		return
	}
	e.needs.pointee(v.Plan)
	e.element(v, b)
	e.depth--
}

// slice writes a slice of n values, which stand with their tags in b.
func (e *MessageEncoder) slice(v *wire.Value, b []byte, n int) {
	if !e.enter() {
		return
	}
	at, before := len(e.buf), e.private
	e.uvarint(uint64(n) << 1)
	e.needs.slice(v.Plan, n)
	for range n {
		var one []byte
		one, b = v.Next(b)
		e.element(v, one)
	}
	e.share(at, before)
	e.depth--
}

// quantityMap writes a map of quantities.
func (e *MessageEncoder) quantityMap(v *wire.Value, b []byte, n int) {
	e.mapping(b, n, form.QuantityPair, func(p pair) {
		e.string(p.key)
		e.quantity(e.read(v.Elem.Own, bytesOf(p.text)))
	})
}

// anyMap writes a map of any other type.
func (e *MessageEncoder) anyMap(v *wire.Value, b []byte, n int) {
	if !e.enter() {
		return
	}
	e.mapping(b, n, v.Plan.PairSize(), func(p pair) {
		e.string(p.key)
		e.element(v.Elem, bytesOf(p.text))
	})
	e.depth--
}
