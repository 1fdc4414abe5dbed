// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"unsafe"
)

// scan finds the fields between two positions of a message, and notes them in the slots from base.
// Fields whose numbers are unknown are skipped, as by Unmarshal. It returns false if the message is
// unusual.
func (e *wireEncoder) scan(numbers []wireField, message []byte, pos, end, base int) bool {
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
		case f.inline != nil:
			if !e.scan(*f.inline, message, start, stop, base) {
				return false
			}
		case !e.slots[base+int(f.slot)].note(f.repeated, tagged, start, stop):
			return false
		}
	}
	return pos == end
}

// note notes a value that stands between two positions, with its tag before it. It returns false
// for a second value of a field that has one, and for values of one field that stand apart.
func (s *wireSlot) note(repeated bool, tagged, start, stop int) bool {
	switch {
	case s.n == 0 && repeated:
		s.start = uint32(tagged)
	case s.n == 0:
		s.start = uint32(start)
	case !repeated || s.end != uint32(tagged):
		return false
	}
	s.end = uint32(stop)
	s.n++
	return true
}

// extent returns where the value of a field stands, whose tag ends at pos.
func extent(wire byte, message []byte, pos, end int) (start, stop int, ok bool) {
	switch wire {
	case wireVarint:
		_, size := uvarintAt(message, pos, end)
		return pos, pos + size, size > 0
	case wireFixed64:
		return pos, pos + 8, pos+8 <= end
	case wireFixed32:
		return pos, pos + 4, pos+4 <= end
	case wireLength:
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

// next returns the first of several values of a field, which stand with their tags in b, and what
// follows it. They were scanned before.
func next(wire byte, b []byte) (value, rest []byte) {
	_, size := uvarintAt(b, 0, len(b))
	start, stop, _ := extent(wire, b, size, len(b))
	return b[start:stop], b[stop:]
}

// pairsOf puts the n pairs of a map, which stand with their tags in b, on the stack, and returns
// them in order. The values are the text of the pairs. It returns false if a pair is unusual, or if
// two have the same key.
func (e *wireEncoder) pairsOf(b []byte, n int) (at int, ok bool) {
	at = len(e.pairs.all)
	for range n {
		var one []byte
		one, b = next(wireLength, b)
		key, value, ok := pairOf(one)
		if !ok {
			return at, false
		}
		e.pairs.all = append(e.pairs.all, pair{key: key, text: value})
	}
	pairs := e.pairs.sorted(at)
	for i := 1; i < len(pairs); i++ {
		if pairs[i].key == pairs[i-1].key {
			return at, false
		}
	}
	return at, true
}

// pairOf returns the key and the value of one pair of a map: a message with the fields 1 and 2.
func pairOf(b []byte) (key, value string, ok bool) {
	const keyTag, valueTag = 1<<3 | wireLength, 2<<3 | wireLength
	if len(b) == 0 || b[0] != keyTag {
		return "", "", false
	}
	start, stop, ok := extent(wireLength, b, 1, len(b))
	if !ok || stop == len(b) || b[stop] != valueTag {
		return "", "", false
	}
	key = stringOf(b[start:stop])
	start, stop, ok = extent(wireLength, b, stop+1, len(b))
	if !ok || stop != len(b) {
		return "", "", false
	}
	return key, stringOf(b[start:stop]), true
}

// bytesOf returns the bytes of a string, which the caller does not change.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// stringMap writes a map of strings.
func (e *wireEncoder) stringMap(b []byte, n int) {
	if at, ok := e.pairsOf(b, n); ok {
		e.stringPairs(at)
	} else {
		e.unusual()
		e.pairs.pop(at)
	}
}

// quantityMap writes a map of quantities.
func (e *wireEncoder) quantityMap(v *wireValue, b []byte, n int) {
	e.mapping(b, n, quantityPair, func(p pair) {
		e.string(p.key)
		e.quantity(e.read(v.elem.own, bytesOf(p.text)))
	})
}

// anyMap writes a map of any other type.
func (e *wireEncoder) anyMap(v *wireValue, b []byte, n int) {
	if !e.enter() {
		return
	}
	e.mapping(b, n, v.plan.pairSize(), func(p pair) {
		e.string(p.key)
		e.element(v.elem, bytesOf(p.text))
	})
	e.depth--
}

// mapping writes a map whose pairs take so many bytes of memory, each with the function write.
func (e *wireEncoder) mapping(b []byte, n, pairSize int, write func(pair)) {
	at, ok := e.pairsOf(b, n)
	defer e.pairs.pop(at)
	if !ok {
		e.unusual()
		return
	}
	start, before := len(e.buf), e.private
	e.uvarint(uint64(n) << 1)
	e.charged += n * pairSize
	for i := range n {
		write(e.pairs.all[at+i])
	}
	e.share(start, before)
}
