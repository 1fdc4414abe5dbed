// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"hash/maphash"
	"unsafe"
)

// Most updates of an object change its status, and leave its spec as it was. To encode the spec again
// is then most of the work. So EncodeWireAfter copies what has not changed from the flat form of the
// state before.
//
// What can be copied is a section: a struct among the fields of the root that has a bitmap of its own,
// such as the spec of a Pod. A reference to an earlier string never leaves its section, and counts from
// its start. So the bytes of a section mean the same wherever they stand in an object of the same type
// and the same dictionary.
//
// A section is the same as before if its message is. Its hash says so, which the header of the object
// has in a table, for the first large sections of an object that was updated: an object that never is
// has no table. The hash has 64 bits and a seed of this process, which nobody outside of it knows. The
// metadata, which every update changes, is no section. The table also says what memory a decoder needs
// for the section, which is part of what the header says of the whole.

const (
	// leastSection is the length in bytes of a message from which its section pays for its place in
	// the table, of about 20 bytes.
	leastSection = 512
	// mostSections bounds the table.
	mostSections = 2
)

// section makes sections of those fields that are structs.
func (s *structPlan) section() {
	number := uint8(0)
	for _, g := range s.groups {
		for i := range g.fields {
			if f := &g.fields[i]; f.kind == kindStruct && number < 255 {
				number++
				f.kind, f.section = kindSection, number
			}
		}
	}
}

// section writes a section, unless it is zero, and says whether it is not.
func (e *encoder) section(f *field, p unsafe.Pointer) bool {
	at := len(e.buf)
	outer := e.inlined.enter(at)
	found := e.structure(f.plan.fields, p)
	e.inlined.scope = outer
	if !found {
		e.buf = e.buf[:at]
	}
	return found
}

// section is one entry of the table.
type section struct {
	number uint8  // of the field
	hash   uint64 // of the message
	at     int    // where it stands in the body
	size   int    // bytes of it
	needs  string // the memory that it takes, see needsOf; a shared form
}

// sections is what a wireEncoder knows of sections while it writes one object.
type sections struct {
	noting   bool                                // whether the object gets a table
	copied   bool                                // whether a section was copied
	before   sectionReader                       // of the state before
	previous func(namespace, name string) Object // see object; nil if there is none, or after its use
	all      [mostSections]section
	n        int
	aside    needs  // of the object, while those of a section are counted
	text     []byte // the needs of sections that were not copied
}

// begin asks for the state before of the object with that name.
func (e *wireEncoder) begin(namespace, name string) {
	if s := e.sections; s.previous != nil {
		s.noting = s.before.open(s.previous(namespace, name), e.root, e.dict)
	}
}

// forget drops all, the state before too.
func (s *sections) forget() {
	s.noting, s.copied, s.n, s.text = false, false, 0, s.text[:0]
	s.before.forget()
	clear(s.all[:])
}

// section writes the section of a message, or copies it from the state before. It says whether a field
// of it is not zero.
func (e *wireEncoder) section(f *field, v *wireValue, b []byte) bool {
	s := e.sections
	if !s.noting || len(b) < leastSection || s.n == len(s.all) || e.err != nil {
		return e.sectionAnew(f, v, b)
	}
	now := section{number: f.section, hash: maphash.Bytes(seed(), b), at: len(e.buf)}
	if bytes, needs, ok := s.before.find(now.number, now.hash); ok && e.merge(needs) {
		e.buf = append(e.buf, bytes...)
		now.size, now.needs, s.copied = len(bytes), needs, true
	} else {
		s.aside, e.needs = e.needs, s.aside
		e.needs.reset()
		if !e.sectionAnew(f, v, b) {
			e.needs, s.aside = s.aside, e.needs
			return false
		}
		now.size, now.needs = len(e.buf)-now.at, e.needsOf()
		e.needs, s.aside = s.aside, e.needs
		e.merge(now.needs)
	}
	s.all[s.n] = now
	s.n++
	return true
}

// sectionAnew writes the section of a message.
func (e *wireEncoder) sectionAnew(f *field, v *wireValue, b []byte) bool {
	at := len(e.buf)
	outer := e.inlined.enter(at)
	found := e.structure(v.message, b)
	e.inlined.scope = outer
	if !found {
		e.buf = e.buf[:at]
	}
	return found
}

// table returns the table of sections. It is empty if the object may be split into parts with it: then
// its strings would not stand in its sections.
func (e *wireEncoder) table() []byte {
	s := e.sections
	from := len(s.text)
	for _, one := range s.all[:s.n] {
		s.text = append(s.text, one.number)
		s.text = binary.LittleEndian.AppendUint64(s.text, one.hash)
		s.text = binary.AppendUvarint(s.text, uint64(one.at))
		s.text = binary.AppendUvarint(s.text, uint64(one.size))
		s.text = binary.AppendUvarint(s.text, uint64(len(one.needs)))
		s.text = append(s.text, one.needs...)
	}
	table := s.text[from:]
	if e.split.parts != nil || len(e.buf)+longestHeader+binary.MaxVarintLen16+len(table) > pinLimit {
		return nil
	}
	return table
}

// reset counts from zero.
func (n *needs) reset() {
	n.noscan, n.strings, n.charged = 0, 0, 0
	n.slabs.reset()
}

// needsOf returns what was counted, in a shared form: the numbers, and then the counts of each slab.
func (e *wireEncoder) needsOf() string {
	at := len(e.buf)
	e.buf = append(e.buf, 0) // no number of an entry
	e.uvarint(uint64(e.needs.noscan))
	e.uvarint(uint64(e.needs.strings))
	e.uvarint(uint64(e.needs.charged))
	for _, n := range e.needs.slabs.seen {
		c := e.needs.slabs.counts[n]
		e.buf = append(e.buf, n, c.values, c.takes)
	}
	e.share(at, e.private)
	from := len(e.sections.text)
	e.sections.text = append(e.sections.text, e.buf[at:]...)
	e.buf = e.buf[:at]
	return stringOf(e.sections.text[from:])
}

// merge adds what needsOf returned for a section, perhaps of another object with the same dictionary.
// It reports false, and adds nothing, if that cannot be read.
func (e *wireEncoder) merge(text string) bool {
	noscan, strs, charged, slabs, ok := readNeeds(text, e.dict)
	if !ok {
		return false
	}
	e.needs.noscan = (e.needs.noscan+7)&^7 + uintptr(noscan)
	e.needs.strings += strs
	e.needs.charged += charged
	for ; len(slabs) > 0; slabs = slabs[3:] {
		e.needs.slabs.merge(slabs[0], slabs[1], slabs[2])
	}
	return true
}

// merge adds the counts of a slab that were counted apart.
func (s *slabCounts) merge(number, values, takes uint8) {
	c := &s.counts[number]
	if int(values) > slabSize-int(c.values) {
		return
	}
	if c.takes == 0 {
		s.seen = append(s.seen, number)
	}
	c.values += values
	c.takes += takes
}
