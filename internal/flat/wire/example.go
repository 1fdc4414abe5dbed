// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"time"

	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// Example returns a message in which each field has a value, or stands with an empty one.
func (p *Plan) Example(empty bool) []byte {
	x := &example{empty: empty, made: map[*Message]bool{}, metadata: p.Metadata}
	return x.message(nil, p.Root, p.Root.numbers)
}

// example makes an example of a message.
type example struct {
	empty    bool              // all values are empty
	made     map[*Message]bool // messages of a type after the first are empty: one of each will do
	metadata *Message
	n        uint64 // the number of the last value
}

// message appends the fields of a message to b.
func (x *example) message(b []byte, m *Message, numbers []field) []byte {
	for number, f := range numbers {
		if !f.known {
			continue
		}
		tag := uint64(number)<<3 | uint64(f.wire)
		switch {
		case f.inline:
			b = appendField(b, tag, x.message(nil, m, m.inlines[f.slot]))
		case int(f.slot) == len(m.Values):
			b = appendField(b, tag, x.message(nil, x.metadata, x.metadata.numbers))
		case f.repeated:
			b = x.several(b, tag, m.Values[f.slot])
		default:
			b = x.field(b, tag, m.Values[f.slot])
		}
	}
	return b
}

// several appends two values of a field.
func (x *example) several(b []byte, tag uint64, v *Value) []byte {
	for range 2 {
		if v.Plan.Kind == plan.KindSlice {
			b = x.field(b, tag, v.Elem)
			continue
		}
		key := fmt.Sprintf("key-%d", ^uint32(x.n)) // not in order
		pair := appendField(nil, 1<<3|length, []byte(key))
		if elem := v.Elem; elem != nil {
			pair = x.field(pair, 2<<3|length, elem)
		} else { // of strings
			pair = appendField(pair, 2<<3|length, []byte(key))
		}
		b = appendField(b, tag, pair)
		x.n++
	}
	return b
}

// field appends one value of a field.
func (x *example) field(b []byte, tag uint64, v *Value) []byte {
	x.n++
	n := x.n
	if x.empty {
		n = 0
	}
	switch v.wire {
	case varint:
		return binary.AppendUvarint(binary.AppendUvarint(b, tag), n%100)
	case fixed32:
		return binary.LittleEndian.AppendUint32(binary.AppendUvarint(b, tag), uint32(n))
	case fixed64:
		return binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, tag), n)
	}
	return appendField(b, tag, x.bytes(v, n))
}

// bytes returns the bytes of a value that has a length.
func (x *example) bytes(v *Value, n uint64) []byte {
	for v.Own == 0 && v.Plan.Kind == plan.KindPointer {
		v = v.Elem
	}
	switch {
	case v.Own != 0:
		return x.own(v.Plan.Type, n)
	case v.Plan.Kind == plan.KindStruct && x.made[v.Message]:
		return nil
	case v.Plan.Kind == plan.KindStruct:
		x.made[v.Message] = true
		return x.message(nil, v.Message, v.Message.numbers)
	case x.empty:
		return nil
	}
	return fmt.Appendf(nil, "value-%d", n)
}

// own returns an example for a type that is read by its own Unmarshal method.
func (x *example) own(t reflect.Type, n uint64) []byte {
	switch {
	case t == typeAmount: // an empty one is none
		return appendField(nil, 1<<3|length, fmt.Append(nil, n))
	case x.empty:
		return nil
	case t.Kind() == reflect.Struct && t.Field(0).Type == reflect.TypeFor[time.Time]():
		return binary.AppendUvarint([]byte{1<<3 | varint}, n)
	}
	return appendField(nil, 1<<3|length, fmt.Appendf(nil, "own-%d", n))
}
