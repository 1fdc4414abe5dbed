// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// A string of a decoded object refers to memory of the flat object, and a reader that keeps the
// string keeps all of that block of memory. So no block is larger than pinLimit, except a block
// that holds one long string. An Object that would be larger is split: its strings stand in parts,
// and its own bytes have references to them. A long string is a part of its own. In both cases a
// decoder copies no string.

const (
	// pinLimit is the number of bytes that a string of a decoded object keeps in memory at most,
	// without its own.
	pinLimit = dictionary.Block
	// partBits is the number of bits of a position that count within a part. The higher bits are
	// the number of the part.
	partBits = dictionary.BlockBits
	// longString is the length in bytes above which a string gets memory of its own, so that little
	// room of a part is left unused.
	longString = dictionary.Long
)

// boxedTogether is the number of string headers of a large object that share an allocation.
const boxedTogether = 16

// splitter makes the parts of a large object.
type splitter struct {
	mentions []mention // in the order of their places
	parts    []string  // the complete parts, and a place for the open one
	text     []byte    // the open part
	open     int       // its number, if there is any text
	body     []byte    // a buffer
}

// mention is a place in the body with an inline string, or with a reference to an inline string.
type mention struct {
	place int
	base  int // where a position in a reference counts from
	at    int // where the string stands in the parts
}

// mention notes that there is an inline string, or a reference to one, at that place of the body.
func (s *splitter) mention(place, base int) {
	s.mentions = append(s.mentions, mention{place: place, base: base})
}

// reset prepares for the next object.
func (s *splitter) reset() {
	s.mentions, s.parts, s.text = s.mentions[:0], nil, s.text[:0]
	if cap(s.body) > 1<<20 || cap(s.mentions) > 1<<16 {
		s.body, s.mentions = nil, nil
	}
}

// apart writes a string into the parts and returns its position there, counted from 1.
func (s *splitter) apart(text string) int {
	if len(text) > longString {
		var b strings.Builder
		var length [binary.MaxVarintLen64]byte
		head := binary.AppendUvarint(length[:0], uint64(len(text))<<2)
		b.Grow(len(head) + len(text))
		b.Write(head)
		b.WriteString(text)
		s.parts = append(s.parts, b.String())
		return (len(s.parts)-1)<<partBits + 1
	}
	if len(s.text)+len(text)+2 > pinLimit {
		s.close()
	}
	if len(s.text) == 0 {
		s.open = len(s.parts)
		s.parts = append(s.parts, "")
	}
	at := len(s.text)
	s.text = append(binary.AppendUvarint(s.text, uint64(len(text))<<2), text...)
	return s.open<<partBits + at + 1
}

// close completes the open part.
func (s *splitter) close() {
	if len(s.text) > 0 {
		s.parts[s.open] = string(s.text)
		s.text = s.text[:0]
	}
}

// take returns the parts, or nil if there are none.
func (s *splitter) take() []string {
	s.close()
	parts := s.parts
	s.parts = nil
	return parts
}

// at returns the string at a position that apart returned.
func (s *splitter) at(at int) string {
	n := (at - 1) >> partBits
	part := s.parts[n]
	if n == s.open && len(s.text) > 0 {
		part = stringOf(s.text)
	}
	text, _ := inlineAt(part, uint64(at-1)&(pinLimit-1))
	return text
}

// split moves the inline strings of a body into the parts, and returns the body with references to
// them. It reuses the memory of the body later.
func (s *splitter) split(body []byte) []byte {
	short, from := s.body[:0], 0
	for i := range s.mentions {
		m := &s.mentions[i]
		short = append(short, body[from:m.place]...)
		h, size := binary.Uvarint(body[m.place:])
		from = m.place + size
		if h&3 == 0 {
			text := body[from : from+int(h>>2)]
			from += len(text)
			m.at = s.apart(stringOf(text))
		} else {
			m.at = s.moved(m.base + int(h>>2))
		}
		short = binary.AppendUvarint(short, uint64(m.at)<<2|2)
	}
	s.body = body[:0]
	return append(short, body[from:]...)
}

// moved returns the new position of the string that stood at a place of the body.
func (s *splitter) moved(place int) int {
	i, _ := slices.BinarySearchFunc(s.mentions, place, func(m mention, place int) int { return m.place - place })
	return s.mentions[i].at
}

// stringAt returns the string at the position that a reference gives.
func (r *reader) stringAt(at uint64) (string, bool) {
	switch {
	case at == 0:
		return "", false
	case r.annex.Parts == nil:
		return inlineAt(r.body, uint64(r.base)+at)
	case (at-1)>>partBits >= uint64(len(r.annex.Parts)):
		return "", false
	}
	return inlineAt(r.annex.Parts[(at-1)>>partBits], (at-1)&(pinLimit-1))
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

// clone returns a copy of s. It is for a string that is too short to have memory of its own and
// would keep a large block.
func (r *reader) clone(s string) string {
	if !r.charge(len(s)) {
		return ""
	}
	return strings.Clone(s)
}

// header returns the address of a new string header that holds s. In a large object the header of a
// long string is allocated by itself, because other headers in the same allocation would keep the
// string.
func (m *memory) header(s string) *string {
	if m.large && len(s) > longString {
		alone := s
		return &alone
	}
	h := &m.stringHeaders(1)[0]
	*h = s
	return h
}
