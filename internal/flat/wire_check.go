// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"time"

	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// example returns a message in which each field has a value, or stands with an empty one.
func (p *wirePlan) example(empty bool) []byte {
	x := &wireExample{empty: empty, made: map[*wireMessage]bool{}, metadata: p.metadata}
	return x.message(nil, p.root, p.root.numbers)
}

// wireExample makes an example of a message.
type wireExample struct {
	empty    bool                  // all values are empty
	made     map[*wireMessage]bool // messages of a type after the first are empty: one of each will do
	metadata *wireMessage
	n        uint64 // the number of the last value
}

// message appends the fields of a message to b.
func (x *wireExample) message(b []byte, m *wireMessage, numbers []wire.Field) []byte {
	for number, f := range numbers {
		if !f.Known {
			continue
		}
		tag := uint64(number)<<3 | uint64(f.Wire)
		switch {
		case f.Inline != nil:
			b = wire.AppendField(b, tag, x.message(nil, m, *f.Inline))
		case int(f.Slot) == len(m.values):
			b = wire.AppendField(b, tag, x.message(nil, x.metadata, x.metadata.numbers))
		case f.Repeated:
			b = x.several(b, tag, m.values[f.Slot])
		default:
			b = x.field(b, tag, m.values[f.Slot])
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
		pair := wire.AppendField(nil, 1<<3|wire.Length, []byte(key))
		if elem := v.elem; elem != nil {
			pair = x.field(pair, 2<<3|wire.Length, elem)
		} else { // of strings
			pair = wire.AppendField(pair, 2<<3|wire.Length, []byte(key))
		}
		b = wire.AppendField(b, tag, pair)
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
	case wire.Varint:
		return binary.AppendUvarint(binary.AppendUvarint(b, tag), n%100)
	case wire.Fixed32:
		return binary.LittleEndian.AppendUint32(binary.AppendUvarint(b, tag), uint32(n))
	case wire.Fixed64:
		return binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, tag), n)
	}
	return wire.AppendField(b, tag, x.bytes(v, n))
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
	case t == typeAmount: // an empty one is none
		return wire.AppendField(nil, 1<<3|wire.Length, fmt.Append(nil, n))
	case x.empty:
		return nil
	case t.Kind() == reflect.Struct && t.Field(0).Type == reflect.TypeFor[time.Time]():
		return binary.AppendUvarint([]byte{1<<3 | wire.Varint}, n)
	}
	return wire.AppendField(nil, 1<<3|wire.Length, fmt.Appendf(nil, "own-%d", n))
}
