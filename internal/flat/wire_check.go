// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// A wire plan is made of struct tags, and what they mean is for the Unmarshal methods to say. So
// before a plan is used, two messages are read both ways: one in which each field has a value, and
// one in which each field stands with an empty value. If the objects differ, the type has no wire
// plan.

// checkWire returns an error if EncodeWire with plan p does not do what Unmarshal and Encode do.
func (c *Codec) checkWire(p *wirePlan) error {
	e := newWireEncoder(c, p)
	for _, empty := range []bool{false, true} {
		x := &wireExample{empty: empty, made: map[*wireMessage]bool{}, metadata: p.metadata}
		message := x.message(nil, p.root, p.root.numbers)
		obj := reflect.New(c.typ).Interface()
		method, ok := obj.(unmarshaler)
		if !ok {
			return fmt.Errorf("%v has no Unmarshal method", c.typ)
		}
		if err := method.Unmarshal(message); err != nil {
			return fmt.Errorf("%v does not read an example of its message: %w", c.typ, err)
		}
		o, err := e.object(message, nil)
		if err != nil {
			return fmt.Errorf("%v: an example of its message: %w", c.typ, err)
		}
		if err := c.verify(obj, o, false); err != nil { // a slab makes Go types, which stay: of kinds that no object may have
			return fmt.Errorf("an example of its message is read in two ways: %w", err)
		}
	}
	return nil
}

// wireExample makes an example of a message.
type wireExample struct {
	empty    bool                  // all values are empty
	made     map[*wireMessage]bool // messages of a type after the first are empty: one of each will do
	metadata *wireMessage
	n        uint64 // the number of the last value
}

// message appends the fields of a message to b.
func (x *wireExample) message(b []byte, m *wireMessage, numbers []wireField) []byte {
	for number, f := range numbers {
		if !f.known {
			continue
		}
		tag := uint64(number)<<3 | uint64(f.wire)
		switch {
		case f.inline != nil:
			b = appendField(b, tag, x.message(nil, m, *f.inline))
		case int(f.slot) == len(m.values):
			b = appendField(b, tag, x.message(nil, x.metadata, x.metadata.numbers))
		case f.repeated:
			b = x.several(b, tag, m.values[f.slot])
		default:
			b = x.field(b, tag, m.values[f.slot])
		}
	}
	return b
}

// several appends two values of a field.
func (x *wireExample) several(b []byte, tag uint64, v *wireValue) []byte {
	for range 2 {
		if v.plan.kind == kindSlice {
			b = x.field(b, tag, v.elem)
			continue
		}
		key := fmt.Sprintf("key-%d", ^uint32(x.n)) // not in order
		pair := appendField(nil, 1<<3|wireLength, []byte(key))
		if elem := v.elem; elem != nil {
			pair = x.field(pair, 2<<3|wireLength, elem)
		} else { // of strings
			pair = appendField(pair, 2<<3|wireLength, []byte(key))
		}
		b = appendField(b, tag, pair)
		x.n++
	}
	return b
}

// field appends one value of a field.
func (x *wireExample) field(b []byte, tag uint64, v *wireValue) []byte {
	x.n++
	n := x.n
	if x.empty {
		n = 0
	}
	switch v.wire {
	case wireVarint:
		return binary.AppendUvarint(binary.AppendUvarint(b, tag), n%100)
	case wireFixed32:
		return binary.LittleEndian.AppendUint32(binary.AppendUvarint(b, tag), uint32(n))
	case wireFixed64:
		return binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, tag), n)
	}
	return appendField(b, tag, x.bytes(v, n))
}

// bytes returns the bytes of a value that has a length.
func (x *wireExample) bytes(v *wireValue, n uint64) []byte {
	for v.own == nil && v.plan.kind == kindPointer {
		v = v.elem
	}
	switch {
	case v.own != nil:
		return x.own(v.own.typ, n)
	case v.plan.kind == kindStruct && x.made[v.message]:
		return nil
	case v.plan.kind == kindStruct:
		x.made[v.message] = true
		return x.message(nil, v.message, v.message.numbers)
	case x.empty:
		return nil
	}
	return fmt.Appendf(nil, "value-%d", n)
}

// own returns an example for a type that is read by its own Unmarshal method.
func (x *wireExample) own(t reflect.Type, n uint64) []byte {
	switch {
	case t == typeQuantity: // an empty one is none
		return appendField(nil, 1<<3|wireLength, fmt.Append(nil, n))
	case x.empty:
		return nil
	case t.Kind() == reflect.Struct && t.Field(0).Type == typeTime:
		return binary.AppendUvarint([]byte{1<<3 | wireVarint}, n)
	}
	return appendField(nil, 1<<3|wireLength, fmt.Appendf(nil, "own-%d", n))
}

// appendField appends a field with bytes.
func appendField(b []byte, tag uint64, value []byte) []byte {
	b = binary.AppendUvarint(b, tag)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}
