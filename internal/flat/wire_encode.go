// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// ErrUnusualMessage says that a protobuf message is not one that EncodeWire reads: it is malformed,
// or it has what encoders of the API never write, like a field twice. Unmarshal knows what it means.
var ErrUnusualMessage = errors.New("flat: unusual protobuf message")

// wireEncoder writes the flat form from protobuf messages. The form is the one that the encoder
// writes from the struct that Unmarshal makes of the message; each method here has its counterpart
// there.
//
// A message has its fields in the order of their numbers, and the form in the order of the plan. So
// each message is scanned once, which finds where its fields stand, before they are written.
type wireEncoder struct {
	*encoder
	plan     *wirePlan
	slots    []wire.Slot // of the messages that are being written; the innermost message is last
	owns     []ownValue  // by number
	sections *sections
}

// ownValue is the value into which the Unmarshal method of a type reads.
type ownValue struct {
	value  reflect.Value
	memory unsafe.Pointer
	method unmarshaler
}

// newWireEncoder returns an encoder for the messages of r, whose plan is p.
func newWireEncoder(r *root, p *wirePlan) *wireEncoder {
	e := &wireEncoder{encoder: newEncoder(r), plan: p, owns: make([]ownValue, len(p.owns)), sections: &sections{}}
	for i, own := range p.owns {
		v := reflect.New(own.typ)
		e.owns[i] = ownValue{value: v.Elem(), memory: v.UnsafePointer(), method: v.Interface().(unmarshaler)}
	}
	return e
}

// object encodes one message. Previous, which may be nil, returns an earlier state of the object, or the
// zero Object; it is called at most once, and must not keep its arguments. What is the same there is copied.
func (e *wireEncoder) object(message []byte, dict *dictionary.Dictionary, previous func(namespace, name string) Object) (Object, error) {
	defer e.sections.forget()
	e.sections.previous = previous
	e.again(message, dict)
	table := e.table()
	if table == nil && e.sections.copied { // what was copied cannot be split
		e.again(message, dict)
	}
	return e.finish(dict, table)
}

// again writes the message from its beginning.
func (e *wireEncoder) again(message []byte, dict *dictionary.Dictionary) {
	e.sections.forget()
	e.reset(dict)
	e.slots = e.slots[:0]
	e.document(message)
	e.sections.previous = nil
}

// document writes the message of the object: its metadata, and then the rest.
func (e *wireEncoder) document(message []byte) {
	if uint64(len(message)) > math.MaxUint32 || !e.open(e.plan.root, message) {
		e.unusual()
		return
	}
	at := e.slots[len(e.plan.root.values)]
	metadata := message[at.Start:at.End]
	base := len(e.slots)
	if !e.open(e.plan.metadata, metadata) {
		return
	}
	text := func(field int) string { s := e.slots[base+field]; return stringOf(metadata[s.Start:s.End]) }
	e.owner = e.identity(text(metaUID), text(metaNamespace), text(metaName))
	e.begin(text(metaNamespace), text(metaName))
	e.written(e.plan.metadata, metadata, base)
	e.written(e.plan.root, message, 0)
}

// unusual notes that the message has to be read by Unmarshal.
func (e *wireEncoder) unusual() {
	if e.err == nil {
		e.err = ErrUnusualMessage
	}
}

// structure writes the fields of a struct. It says whether a field is not zero.
func (e *wireEncoder) structure(m *wireMessage, message []byte) bool {
	base := len(e.slots)
	return e.open(m, message) && e.written(m, message, base)
}

// open finds the fields of a message, which written writes. It returns false if that is not possible.
func (e *wireEncoder) open(m *wireMessage, message []byte) bool {
	if !e.enter() {
		return false
	}
	base := len(e.slots)
	for range m.slots() {
		e.slots = append(e.slots, wire.Slot{})
	}
	if !wire.Scan(e.slots[base:], m.numbers, message) {
		e.unusual()
		return false
	}
	return true
}

// written writes the fields of a message that was opened, whose slots begin at base, and closes it.
func (e *wireEncoder) written(m *wireMessage, message []byte, base int) (found bool) {
	i := 0
	for n := range m.plan.groups {
		g := &m.plan.groups[n]
		at, bits := len(e.buf), uint64(0)
		e.buf = append(e.buf, zeros[:g.width]...)
		for k := range g.fields {
			if s := e.slots[base+i]; s.N > 0 && e.field(&g.fields[k], m.values[i], message[s.Start:s.End], int(s.N)) {
				bits |= 1 << k
			}
			i++
		}
		for b := range g.width {
			e.buf[at+b] = byte(bits >> (8 * b))
		}
		found = found || bits != 0
	}
	e.slots = e.slots[:base]
	e.depth--
	return found
}

// field writes a field that stands in the message, unless it is zero, and says whether it is not.
func (e *wireEncoder) field(f *field, v *wireValue, b []byte, n int) bool {
	if v.own != nil {
		p := e.read(v.own, b)
		if zero(f.plan, p) {
			return false
		}
		e.encoder.body(f.plan, p)
		return true
	}
	switch f.kind {
	case kindString:
		if len(b) == 0 {
			return false
		}
		e.string(stringOf(b))
	case kindBytes, kindPointer, kindSlice, kindStringMap, kindQuantityMap, kindMap:
		e.body(v, b, n)
	case kindStruct:
		at := len(e.buf)
		if !e.structure(v.message, b) {
			e.buf = e.buf[:at]
			return false
		}
	case kindSection:
		return e.section(f, v, b)
	default:
		number := e.number(f.kind, b)
		if number == 0 {
			return false
		}
		if f.kind != kindBool { // the bit says it all
			e.scalar(f.kind, number)
		}
	}
	return true
}

// body writes a value.
func (e *wireEncoder) body(v *wireValue, b []byte, n int) {
	switch {
	case v.own != nil:
		e.encoder.body(v.plan, e.read(v.own, b))
		return
	case e.err != nil:
		return
	}
	switch v.plan.kind {
	case kindString:
		e.string(stringOf(b))
	case kindBytes:
		e.bytes(b)
	case kindPointer:
		e.pointee(v.elem, b)
	case kindSlice:
		e.slice(v.elem, b, n)
	case kindStruct:
		e.whole(v, b)
	case kindStringMap:
		e.stringMap(b, n)
	case kindQuantityMap:
		e.quantityMap(v, b, n)
	case kindMap:
		e.anyMap(v, b, n)
	default:
		e.scalar(v.plan.kind, e.number(v.plan.kind, b))
	}
}

// read reads a value with the Unmarshal method of its type, and returns its memory, which is valid
// until the next call.
func (e *wireEncoder) read(own *ownWire, b []byte) unsafe.Pointer {
	o := &e.owns[own.number]
	o.value.SetZero()
	if o.method.Unmarshal(b) != nil {
		e.unusual()
	}
	return o.memory
}

// number returns the bits of a number or bool.
func (e *wireEncoder) number(k kind, b []byte) uint64 {
	switch k {
	case kindFloat32:
		return uint64(binary.LittleEndian.Uint32(b))
	case kindFloat64:
		return binary.LittleEndian.Uint64(b)
	}
	v, _ := binary.Uvarint(b)
	switch k {
	case kindInt32, kindUint32:
		return uint64(uint32(v))
	case kindInt16, kindUint16:
		return uint64(uint16(v))
	case kindInt8, kindUint8:
		return uint64(uint8(v))
	case kindBool:
		return min(v, 1)
	}
	return v
}

// scalar writes a number or bool that has these bits.
func (e *wireEncoder) scalar(k kind, bits uint64) {
	switch k {
	case kindBool:
		e.buf = append(e.buf, byte(bits))
	case kindInt8:
		e.varint(int64(int8(bits)))
	case kindInt16:
		e.varint(int64(int16(bits)))
	case kindInt32:
		e.varint(int64(int32(bits)))
	case kindInt64:
		e.varint(int64(bits))
	case kindFloat32:
		e.buf = binary.LittleEndian.AppendUint32(e.buf, uint32(bits))
	case kindFloat64:
		e.buf = binary.LittleEndian.AppendUint64(e.buf, bits)
	default:
		e.uvarint(bits)
	}
}

// element writes a value that could be nil, but is not.
func (e *wireEncoder) element(v *wireValue, b []byte) {
	if v.plan.nillable() {
		e.buf = append(e.buf, 1)
	}
	e.body(v, b, 1)
}

// whole writes a struct by itself or, if it is in the dictionary, as the number of its entry.
func (e *wireEncoder) whole(v *wireValue, b []byte) {
	if !v.plan.shared {
		e.structure(v.message, b)
		return
	}
	at, before := len(e.buf), e.private
	e.buf = append(e.buf, 0)
	e.structure(v.message, b)
	e.share(at, before)
}

// pointee writes what a pointer points to.
func (e *wireEncoder) pointee(v *wireValue, b []byte) {
	if !e.enter() {
		return
	}
	e.needs.pointee(v.plan)
	e.element(v, b)
	e.depth--
}

// slice writes a slice of n values, which stand with their tags in b.
func (e *wireEncoder) slice(v *wireValue, b []byte, n int) {
	if !e.enter() {
		return
	}
	at, before := len(e.buf), e.private
	e.uvarint(uint64(n) << 1)
	e.needs.slice(v.plan, n)
	for range n {
		var one []byte
		one, b = wire.Next(v.wire, b)
		e.element(v, one)
	}
	e.share(at, before)
	e.depth--
}
