// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/tarn-dev/tarn/internal/flat/decode"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// Most updates of an object change its status, and leave its spec as it was. To encode the spec again
// is then most of the work. So a MessageEncoder copies what has not changed from the flat form of the
// state before.
//
// What can be copied is a section: a struct among the fields of the root that has a bitmap of its own,
// such as the spec of a Pod. A reference to an earlier string never leaves its section, and counts from
// its start. So the bytes of a section mean the same wherever they stand in an object of the same type
// and the same dictionary.
//
// A section is the same as before if its message is. Its hash says so, which the header of a large object
// has in a table, for the first large sections. The table is made when the object is first encoded: most
// objects are seldom updated, so the first update has to copy too. A small object gets its table with the
// first update. The hash has 64 bits and a seed of this process, which nobody outside of it knows. The
// metadata, which every update changes, is no section. The table also says what memory a decoder needs for
// the section, which is part of what the header says of the whole.

const (
	// leastObject is the length in bytes of a message from which its object has a table from the beginning.
	// The table takes about 25 bytes.
	leastObject = 1 << 10
	// leastSection is the length in bytes of a message from which its section pays for its place there.
	leastSection = 512
	// mostSections bounds the table.
	mostSections = 2
)

// section is one entry of the table.
type section struct {
	hash  uint64 // see hashOf
	at    int    // where it stands in the body
	size  int    // bytes of it
	needs string // the memory that it takes, see needsOf; a shared form
}

// sections is what a MessageEncoder knows of sections while it writes one object.
type sections struct {
	noting   bool                                       // whether the object gets a table
	copied   bool                                       // whether a section was copied
	before   decode.Sections                            // of the state before
	previous func(namespace, name string) decode.Object // see Encode; nil if there is none, or after its use
	all      [mostSections]section
	n        int
	aside    needs  // of the object, while those of a section are counted
	text     []byte // the needs of sections that were not copied
}

// hashOf returns the hash of the message of a section. The same message in another field has another hash.
func hashOf(f *plan.Field, message []byte) uint64 {
	return maphash.Bytes(seed(), message) + uint64(f.Section)
}

// begin asks for the state before of the object with that name, which is of type t and has a message of
// so many bytes.
func (s *sections) begin(namespace, name string, size int, t *plan.Root, dict *dictionary.Dictionary) {
	s.noting = size >= leastObject
	if s.previous != nil && s.before.Open(s.previous(namespace, name), t, dict) {
		s.noting = true
	}
}

// forget drops all, the state before too.
func (s *sections) forget() {
	s.noting, s.copied, s.n, s.text = false, false, 0, s.text[:0]
	s.before.Forget()
	clear(s.all[:])
}

// table returns the table of sections. It is empty if the object may be split into parts with it: then
// its strings would not stand in its sections.
func (s *sections) table(w *writer) []byte {
	from := len(s.text)
	for _, one := range s.all[:s.n] {
		s.text = binary.LittleEndian.AppendUint64(s.text, one.hash)
		s.text = binary.AppendUvarint(s.text, uint64(one.at))
		s.text = binary.AppendUvarint(s.text, uint64(one.size))
		s.text = binary.AppendUvarint(s.text, uint64(len(one.needs)))
		s.text = append(s.text, one.needs...)
	}
	table := s.text[from:]
	if w.split.parts != nil || len(w.buf)+longestHeader+binary.MaxVarintLen16+len(table) > form.PinLimit {
		return nil
	}
	return table
}

// needsOf returns what was counted, in a shared form: the numbers, and then the counts of each slab.
func (s *sections) needsOf(w *writer) string {
	at := len(w.buf)
	w.buf = append(w.buf, 0) // no number of an entry
	w.uvarint(uint64(w.needs.noscan))
	w.uvarint(uint64(w.needs.strings))
	w.uvarint(uint64(w.needs.charged))
	for _, n := range w.needs.slabs.seen {
		c := w.needs.slabs.counts[n]
		w.buf = append(w.buf, n, c.values, c.takes)
	}
	w.share(at, w.private)
	from := len(s.text)
	s.text = append(s.text, w.buf[at:]...)
	w.buf = w.buf[:at]
	return form.StringOf(s.text[from:])
}

// addNeeds adds what needsOf returned for a section, perhaps of another object with the same dictionary.
// It reports false, and adds nothing, if that cannot be read.
func (w *writer) addNeeds(text string) bool {
	noscan, strs, charged, slabs, ok := decode.ReadNeeds(text, w.dict)
	if !ok {
		return false
	}
	w.needs.noscan = aligned(w.needs.noscan) + uintptr(noscan)
	w.needs.strings += strs
	w.needs.charged += charged
	for ; len(slabs) > 0; slabs = slabs[3:] {
		w.needs.slabs.merge(slabs[0], slabs[1], slabs[2])
	}
	return true
}
