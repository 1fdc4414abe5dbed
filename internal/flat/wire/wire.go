// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire finds the fields of a protobuf message, without decoding their values.
package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unsafe"
)

// The wire types of protobuf that the API uses.
const (
	Varint  = 0
	Fixed64 = 1
	Length  = 2 // a length, and as many bytes
	Fixed32 = 5
)

// largestNumber bounds the field numbers, because a message has a table of them.
const largestNumber = 255

// Field is one field of a message.
type Field struct {
	Known    bool
	Wire     byte
	Repeated bool
	Slot     uint16   // where Scan notes it
	Inline   *[]Field // the fields of a message within this one that have slots of their own; else nil
}

// Slot is where a field stands in its message: one value or, if it has several, all of them
// with their tags. The positions count from the start of the message.
type Slot struct {
	Start, End uint32
	N          uint32 // values
}

// Scan finds the fields of a message, by their numbers, and notes them in the slots, which are zero. Fields whose
// numbers are unknown are skipped, as by Unmarshal. Scan returns false if the message is unusual.
func Scan(slots []Slot, numbers []Field, message []byte) bool {
	return scan(slots, numbers, message, 0, len(message))
}

// scan is Scan for what stands between two positions of a message.
func scan(slots []Slot, numbers []Field, message []byte, pos, end int) bool {
	for pos < end {
		tagged := pos
		tag, size := uvarintAt(message, pos, end)
		if size == 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
			return false
		}
		start, stop, ok := extent(byte(tag&7), message, pos+size, end)
		if !ok {
			return false
		}
		pos = stop
		if tag>>3 >= uint64(len(numbers)) || !numbers[tag>>3].Known {
			continue
		}
		f := &numbers[tag>>3]
		switch {
		case f.Wire != byte(tag&7):
			return false
		case f.Inline != nil:
			if !scan(slots, *f.Inline, message, start, stop) {
				return false
			}
		case !slots[f.Slot].note(f.Repeated, tagged, start, stop):
			return false
		}
	}
	return pos == end
}

// note notes a value that stands between two positions, with its tag before it. It returns false
// for a second value of a field that has one, and for values of one field that stand apart.
func (s *Slot) note(repeated bool, tagged, start, stop int) bool {
	switch {
	case s.N == 0 && repeated:
		s.Start = uint32(tagged)
	case s.N == 0:
		s.Start = uint32(start)
	case !repeated || s.End != uint32(tagged):
		return false
	}
	s.End = uint32(stop)
	s.N++
	return true
}

// extent returns where the value of a field stands, whose tag ends at pos.
func extent(wire byte, message []byte, pos, end int) (start, stop int, ok bool) {
	switch wire {
	case Varint:
		_, size := uvarintAt(message, pos, end)
		return pos, pos + size, size > 0
	case Fixed64:
		return pos, pos + 8, pos+8 <= end
	case Fixed32:
		return pos, pos + 4, pos+4 <= end
	case Length:
		n, size := uvarintAt(message, pos, end)
		if size == 0 || n > uint64(end-pos-size) {
			return 0, 0, false
		}
		return pos + size, pos + size + int(n), true
	}
	return 0, 0, false
}

// uvarintAt reads a number that ends before end. It returns the size 0 if there is none.
func uvarintAt(b []byte, pos, end int) (v uint64, size int) {
	if pos < end && b[pos] < 0x80 {
		return uint64(b[pos]), 1
	}
	v, size = binary.Uvarint(b[pos:end])
	return v, max(size, 0)
}

// Next returns the first of several values of a field, which stand with their tags in b, and what
// follows it. Scan must have found them.
func Next(wire byte, b []byte) (value, rest []byte) {
	_, size := uvarintAt(b, 0, len(b))
	start, stop, _ := extent(wire, b, size, len(b))
	return b[start:stop], b[stop:]
}

// Pair returns the key and the value of one pair of a map: a message with the fields 1 and 2.
func Pair(b []byte) (key, value string, ok bool) {
	const keyTag, valueTag = 1<<3 | Length, 2<<3 | Length
	if len(b) == 0 || b[0] != keyTag {
		return "", "", false
	}
	start, stop, ok := extent(Length, b, 1, len(b))
	if !ok || stop == len(b) || b[stop] != valueTag {
		return "", "", false
	}
	key = text(b[start:stop])
	start, stop, ok = extent(Length, b, stop+1, len(b))
	if !ok || stop != len(b) {
		return "", "", false
	}
	return key, text(b[start:stop]), true
}

// FieldNumber returns the number that a struct tag gives a field. The wire type in the tag is wrong
// for many fields of the API, and the generated methods go by the Go type.
func FieldNumber(tag string) (int, error) {
	_, rest, _ := strings.Cut(tag, ",")
	text, _, _ := strings.Cut(rest, ",")
	number, err := strconv.Atoi(text)
	if err != nil || number <= 0 || number > largestNumber {
		return 0, fmt.Errorf("the tag %q is unknown", tag)
	}
	return number, nil
}

// AppendField appends a field with bytes.
func AppendField(b []byte, tag uint64, value []byte) []byte {
	b = binary.AppendUvarint(b, tag)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// text returns a string that shares the memory of b.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
