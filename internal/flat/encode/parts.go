// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/tarn-dev/tarn/internal/flat/form"
)

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
	if len(text) > form.LongString {
		var b strings.Builder
		var length [binary.MaxVarintLen64]byte
		head := binary.AppendUvarint(length[:0], uint64(len(text))<<2)
		b.Grow(len(head) + len(text))
		b.Write(head)
		b.WriteString(text)
		s.parts = append(s.parts, b.String())
		return (len(s.parts)-1)<<form.PartBits + 1
	}
	if len(s.text)+len(text)+2 > form.PinLimit {
		s.close()
	}
	if len(s.text) == 0 {
		s.open = len(s.parts)
		s.parts = append(s.parts, "")
	}
	at := len(s.text)
	s.text = append(binary.AppendUvarint(s.text, uint64(len(text))<<2), text...)
	return s.open<<form.PartBits + at + 1
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
	n := (at - 1) >> form.PartBits
	part := s.parts[n]
	if n == s.open && len(s.text) > 0 {
		part = form.StringOf(s.text)
	}
	text, _ := form.InlineAt(part, uint64(at-1)&(form.PinLimit-1))
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
			m.at = s.apart(form.StringOf(text))
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
