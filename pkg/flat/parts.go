// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"strings"
	"unsafe"
)

// The strings of a decoded object stand in the memory of the flat one, and whoever keeps one
// keeps all of that memory. So no memory that strings stand in is larger than pinLimit, except
// that of one long string. An Object that would be larger is written in parts: its strings stand
// inline in no more than pinLimit bytes each, the long ones singly, and its own bytes have
// references to them. A reader has nothing to copy either way.

const (
	// pinLimit is how much memory a string of a decoded object keeps at most, apart from its own.
	pinLimit = 1 << partBits
	// partBits is how many bits of a position in the parts are the position in a part.
	partBits = 12
	// longString is the length above which a string stands alone, so that little room of a part,
	// or of an arena of a dictionary, is left unused.
	longString = pinLimit / 4
	// manyPairs is a number of pairs in a map that make an object large.
	manyPairs = 128
	// boxedTogether is how many string headers of a large object share an allocation.
	boxedTogether = 16
)

// outgrow ends the attempt to write an object without parts.
func (e *encoder) outgrow() {
	e.outgrown = true
	e.dict = nil // what is written from now on is not whole, and must not get into it
}

// crowded says whether to write a map of n pairs makes no sense: the object has outgrown. It has
// with one of many pairs, which are to be put in order once.
func (e *encoder) crowded(n int) bool {
	if n > manyPairs && !e.inParts {
		e.outgrow()
	}
	return e.outgrown
}

// apart writes s into the parts and returns its position there, counted from 1.
func (e *encoder) apart(s string) int {
	if len(s) > longString {
		var b strings.Builder
		b.Grow(binary.MaxVarintLen64 + len(s))
		var head [binary.MaxVarintLen64]byte
		b.Write(binary.AppendUvarint(head[:0], uint64(len(s))<<2))
		b.WriteString(s)
		e.parts = append(e.parts, b.String())
		return (len(e.parts)-1)<<partBits + 1
	}
	if len(e.text)+len(s)+2 > pinLimit {
		e.closePart()
	}
	if len(e.text) == 0 {
		e.open = len(e.parts)
		e.parts = append(e.parts, "")
	}
	at := len(e.text)
	e.text = append(binary.AppendUvarint(e.text, uint64(len(s))<<2), s...)
	return e.open<<partBits + at + 1
}

// closePart ends the part that short strings are written to.
func (e *encoder) closePart() {
	if len(e.text) > 0 {
		e.parts[e.open] = string(e.text)
		e.text = e.text[:0]
	}
}

// apartAt returns the string that apart wrote to a position.
func (e *encoder) apartAt(at int) string {
	n := (at - 1) >> partBits
	part := e.parts[n]
	if n == e.open && len(e.text) > 0 {
		part = stringOf(e.text)
	}
	s, _ := inlineAt(part, uint64(at-1)&(pinLimit-1))
	return s
}

// stringAt returns the string that a reference with that position means.
func (d *decoder) stringAt(at uint64) (string, bool) {
	switch {
	case at == 0:
		return "", false
	case d.parts == nil:
		return inlineAt(d.body, at)
	case (at-1)>>partBits >= uint64(len(d.parts)):
		return "", false
	}
	return inlineAt(d.parts[(at-1)>>partBits], (at-1)&(pinLimit-1))
}

// inlineAt returns the string that stands inline at a position of a body or a part.
func inlineAt(in string, at uint64) (string, bool) {
	if at >= uint64(len(in)) {
		return "", false
	}
	in = in[at:]
	h, size := binary.Uvarint(unsafe.Slice(unsafe.StringData(in), len(in)))
	if size <= 0 || h&3 != 0 || h>>2 > uint64(len(in)-size) {
		return "", false
	}
	return in[size : size+int(h>>2)], true
}

// clone returns a copy of a string that stands in large memory: one too short to stand apart.
func (d *decoder) clone(s string) string {
	if !d.charge(len(s)) {
		return ""
	}
	return strings.Clone(s)
}

// header returns a header for s to be referred to. In large objects that of a long string stands
// alone: the others with it would keep the string.
func (d *decoder) header(s string) *string {
	if d.parts != nil && len(s) > longString {
		alone := s
		return &alone
	}
	h := &d.stringHeaders(1)[0]
	*h = s
	return h
}
