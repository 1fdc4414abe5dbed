// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"
	"reflect"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/plan"
	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// MessageEncoder writes the flat form from protobuf messages. An Encoder would write the same form from
// the struct that Unmarshal makes of the message. Each method has a counterpart in Encoder.
//
// A message has its fields in the order of their numbers, and the form in the order of the plan. So
// each message is scanned once, which finds where its fields stand, before they are written.
type MessageEncoder struct {
	*Encoder
	scan     scan
	sections *sections
	known    known
}

// scan is what a MessageEncoder knows of the messages that it reads.
type scan struct {
	plan  *wire.Plan
	slots []wire.Slot // of the messages that are being written; the innermost message is last
	owns  []ownValue  // the one of number n is at n-1
}

// ownValue is the value into which the Unmarshal method of a type reads.
type ownValue struct {
	value  reflect.Value
	memory unsafe.Pointer
	method wire.Unmarshaler
}

// NewMessageEncoder returns an encoder for the messages of r, whose plan is p.
func NewMessageEncoder(r *plan.Root, p *wire.Plan) *MessageEncoder {
	e := &MessageEncoder{Encoder: New(r), scan: scan{plan: p, owns: make([]ownValue, len(p.Owns))}, sections: &sections{}}
	for i, own := range p.Owns {
		v := reflect.New(own)
		e.scan.owns[i] = ownValue{value: v.Elem(), memory: v.UnsafePointer(), method: v.Interface().(wire.Unmarshaler)}
	}
	return e
}

// unusual notes that the message has to be read by Unmarshal.
func (e *MessageEncoder) unusual() {
	if e.err == nil {
		e.err = ErrUnusualMessage
	}
}

// open finds the fields of a message, which written writes. It returns false if that is not possible.
func (e *MessageEncoder) open(m *wire.Message, message []byte) bool {
	if !e.enter() {
		return false
	}
	var ok bool
	if e.scan.slots, ok = m.Scan(e.scan.slots, message); !ok {
		e.unusual()
	}
	return ok
}

// read reads a value with the Unmarshal method of the type of that number. It returns the memory of the value, which the
// next call overwrites.
func (e *MessageEncoder) read(number uint16, b []byte) unsafe.Pointer {
	o := &e.scan.owns[number-1]
	o.value.SetZero()
	if o.method.Unmarshal(b) != nil {
		e.unusual()
	}
	return o.memory
}

// number returns the bits of a number or bool.
func (e *MessageEncoder) number(k plan.Kind, b []byte) uint64 {
	switch k {
	case plan.KindFloat32:
		return uint64(binary.LittleEndian.Uint32(b))
	case plan.KindFloat64:
		return binary.LittleEndian.Uint64(b)
	}
	v, _ := binary.Uvarint(b)
	switch k {
	case plan.KindInt32, plan.KindUint32:
		return uint64(uint32(v))
	case plan.KindInt16, plan.KindUint16:
		return uint64(uint16(v))
	case plan.KindInt8, plan.KindUint8:
		return uint64(uint8(v))
	case plan.KindBool:
		return min(v, 1)
	}
	return v
}
