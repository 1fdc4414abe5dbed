// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

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
	varint  = 0
	fixed64 = 1
	length  = 2 // a length, and as many bytes
	fixed32 = 5
)

// largestNumber bounds the field numbers, because a message has a table of them.
const largestNumber = 255

// field is one field of a message. It is small, because a kind has some hundreds.
type field struct {
	known    bool
	wire     byte
	repeated bool
	inline   bool   // a message within this one whose fields have slots of their own
	slot     uint16 // the number of its Slot; of an inline message its place in Message.inlines
}

// Slot is where a field stands in its message: one value or, if it has several, all of them
// with their tags. The positions count from the start of the message.
type Slot struct {
	Start, End uint32
	N          uint32 // values
}

// scan finds the fields of a message, or of an inline one, by their numbers, and notes them in the slots, which are zero. It
// reads what stands between two positions of the message. Fields whose numbers are unknown are skipped, as by Unmarshal. It
// returns false if the message is unusual.
func (m *Message) scan(slots []Slot, numbers []field, message []byte, pos, end int) bool {
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
		if tag>>3 >= uint64(len(numbers)) || !numbers[tag>>3].known {
			continue
		}
		f := &numbers[tag>>3]
		switch {
		case f.wire != byte(tag&7):
			return false
		case f.inline:
			if !m.scan(slots, m.inlines[f.slot], message, start, stop) {
				return false
			}
		case !slots[f.slot].note(f.repeated, tagged, start, stop):
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
	case varint:
		_, size := uvarintAt(message, pos, end)
		return pos, pos + size, size > 0
	case fixed64:
		return pos, pos + 8, pos+8 <= end
	case fixed32:
		return pos, pos + 4, pos+4 <= end
	case length:
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

// NextPair returns the key and the value of the first of several pairs of a map, which stand with their
// tags in b, and what follows it. Scan must have found them. It returns false if the pair is unusual.
func NextPair(b []byte) (key, value string, rest []byte, ok bool) {
	pair, rest := next(length, b)
	key, value, ok = pairIn(pair)
	return key, value, rest, ok
}

// next returns the first of several values of a wire type, which stand with their tags in b, and what
// follows it. scan must have found them.
func next(wire byte, b []byte) (value, rest []byte) {
	_, size := uvarintAt(b, 0, len(b))
	start, stop, _ := extent(wire, b, size, len(b))
	return b[start:stop], b[stop:]
}

// pairIn returns the key and the value of one pair of a map: a message with the fields 1 and 2.
func pairIn(b []byte) (key, value string, ok bool) {
	const keyTag, valueTag = 1<<3 | length, 2<<3 | length
	if len(b) == 0 || b[0] != keyTag {
		return "", "", false
	}
	start, stop, ok := extent(length, b, 1, len(b))
	if !ok || stop == len(b) || b[stop] != valueTag {
		return "", "", false
	}
	key = text(b[start:stop])
	start, stop, ok = extent(length, b, stop+1, len(b))
	if !ok || stop != len(b) {
		return "", "", false
	}
	return key, text(b[start:stop]), true
}

// fieldNumber returns the number that a struct tag gives a field. The wire type in the tag is wrong
// for many fields of the API, and the generated methods go by the Go type.
func fieldNumber(tag string) (int, error) {
	_, rest, _ := strings.Cut(tag, ",")
	text, _, _ := strings.Cut(rest, ",")
	number, err := strconv.Atoi(text)
	if err != nil || number <= 0 || number > largestNumber {
		return 0, fmt.Errorf("the tag %q is unknown", tag)
	}
	return number, nil
}

// appendField appends a field with bytes.
func appendField(b []byte, tag uint64, value []byte) []byte {
	b = binary.AppendUvarint(b, tag)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// text returns a string that shares the memory of b.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
