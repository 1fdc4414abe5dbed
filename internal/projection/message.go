// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/binary"
	"reflect"
	"strconv"
	"strings"
)

// Messages returns a function that appends what is kept of a protobuf message, with the mark. The messages are those of t, a pointer
// to a struct whose Unmarshal method is generated from its tags. What the function makes of a message is read as what Cut makes of the
// object. It reports false if the message is unusual, and has to be decoded.
func (p *Projection) Messages(t reflect.Type) func(into, message []byte) ([]byte, bool) {
	m := p.root.message(t.Elem())
	for i := range t.Elem().NumField() {
		if f := t.Elem().Field(i); f.Type == metadataType {
			kept := p.root.under["metadata"].orWhole(metadataType).message(metadataType)
			kept.fields[selfLinkTag>>3] = field{}
			kept.mark = append(binary.AppendUvarint([]byte{selfLinkTag}, uint64(len(p.mark))), p.mark...)
			m.fields[number(f)] = field{in: kept}
		}
	}
	return m.append
}

// The tags of fields with a length: of metadata.selfLink, and of the pairs of a map.
const (
	bytesType   = 2
	selfLinkTag = 4<<3 | bytesType
	keyTag      = 1<<3 | bytesType
)

// message says what is kept of a message.
type message struct {
	fields []field // by their numbers
	mark   []byte  // is appended; empty but for metadata
}

// field says what is kept of a field. It is cut if all are zero.
type field struct {
	whole bool
	in    *message            // the parts of a message
	pairs map[string]*message // the pairs of a map, by their keys
}

// message returns what is kept of the message of a struct.
func (n *node) message(t reflect.Type) *message {
	m := &message{}
	for i := range t.NumField() {
		f := t.Field(i)
		number := number(f)
		if number == 0 {
			continue // the kind, which is not in the message
		}
		name, inline := jsonName(f)
		child := n.under[name]
		if inline {
			child = n
		}
		for len(m.fields) <= number {
			m.fields = append(m.fields, field{})
		}
		if child != nil {
			m.fields[number] = child.field(f.Type)
		}
	}
	return m
}

// number returns the number of a field, 0 if it has none.
func number(f reflect.StructField) int {
	_, rest, _ := strings.Cut(f.Tag.Get("protobuf"), ",")
	text, _, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// field returns what is kept of a field of type t.
func (n *node) field(t reflect.Type) field {
	for isThrough(t) {
		t = t.Elem()
	}
	switch {
	case n.whole:
		return field{whole: true}
	case isOpaque(t):
		return field{}
	case t.Kind() == reflect.Struct:
		return field{in: n.message(t)}
	}
	pairs := map[string]*message{}
	for name, child := range n.under {
		pairs[name] = &message{fields: []field{{}, {whole: true}, child.field(t.Elem())}}
	}
	return field{pairs: pairs}
}

// orWhole returns a node with all fields of a struct under it if n is whole.
func (n *node) orWhole(t reflect.Type) *node {
	if !n.whole {
		return n
	}
	all := &node{}
	for i := range t.NumField() {
		name, _ := jsonName(t.Field(i))
		all.keep([]string{name})
	}
	return all
}

// append appends what is kept of b, a message.
func (m *message) append(into, b []byte) ([]byte, bool) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 {
			return into, false
		}
		begin, end, ok := extent(b, n, tag&7)
		if !ok {
			return into, false
		}
		if number := tag >> 3; number < uint64(len(m.fields)) {
			if into, ok = m.fields[number].append(into, b[:n], b[n:begin], b[begin:end], tag&7); !ok {
				return into, false
			}
		}
		b = b[end:]
	}
	return append(into, m.mark...), true
}

// append appends what is kept of a field: its tag, the length, and the value.
func (f *field) append(into, tag, length, value []byte, wire uint64) ([]byte, bool) {
	part := f.in
	switch {
	case f.whole:
		return append(append(append(into, tag...), length...), value...), true
	case f.pairs != nil:
		key, ok := keyOf(value)
		if !ok || wire != bytesType {
			return into, false
		}
		part = f.pairs[key]
	case part != nil && wire != bytesType:
		return into, false
	}
	if part == nil {
		return into, true
	}
	into = append(into, tag...)
	begin := len(into)
	into, ok := part.append(into, value)
	if !ok {
		return into, false
	}
	var written [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(written[:], uint64(len(into)-begin))
	into = append(into, written[:size]...)
	copy(into[begin+size:], into[begin:])
	copy(into[begin:], written[:size])
	return into, true
}

// keyOf returns the key of a pair of a map.
func keyOf(pair []byte) (key string, ok bool) {
	if len(pair) == 0 || pair[0] != keyTag {
		return "", false
	}
	begin, end, ok := extent(pair, 1, bytesType)
	if !ok {
		return "", false
	}
	return string(pair[begin:end]), true
}

// extent returns where the value of a field begins and ends whose tag has n bytes.
func extent(b []byte, n int, wire uint64) (begin, end int, ok bool) {
	length, size := binary.Uvarint(b[n:])
	switch {
	case wire == 0 && size > 0:
		return n, n + size, true
	case wire == 1 && len(b)-n >= 8:
		return n, n + 8, true
	case wire == 5 && len(b)-n >= 4:
		return n, n + 4, true
	case wire == bytesType && size > 0 && length <= uint64(len(b)-n-size):
		return n + size, n + size + int(length), true
	}
	return 0, 0, false
}
