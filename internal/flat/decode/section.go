// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// Sections reads the sections of an object, from which an encoder copies. The zero value reads none.
type Sections struct {
	reader reader
	table  string
}

// Open begins to read o. It returns false if o is not an object of type t with that dictionary, or is so
// large that it has parts: its sections are not to be copied.
func (s *Sections) Open(o Object, t *plan.Root, dict *dictionary.Dictionary) bool {
	s.Forget()
	var h header
	if o.IsZero() || o.parts() != nil || o.Dictionary() != dict || !s.reader.open(o, &h) || !h.is(t) {
		return false
	}
	s.table = h.table
	return true
}

// Forget drops the object.
func (s *Sections) Forget() { *s = Sections{} }

// entry is what a table says of a section.
type entry struct {
	hash     uint64
	at, size int
	needs    string
}

// entry reads an entry of a table. The reader stands at the end if that fails.
func (t *reader) entry() (e entry) {
	e.hash, e.at, e.size = t.uint64(), int(t.uvarint()), int(t.uvarint())
	n := t.uvarint()
	from := t.pos
	t.over(n)
	e.needs = t.buf[from:t.pos]
	return e
}

// sectionSize returns the bytes of the section at a position of the body, or 0 if a table does not have it.
func sectionSize(table string, at int) int {
	t := reader{buf: table}
	for t.pos < len(t.buf) {
		if e := t.entry(); e.at == at && !t.bad {
			return max(e.size, 0)
		}
	}
	return 0
}

// Find returns the bytes of the section whose message has that hash, and the memory that it takes, for
// ReadNeeds. It returns false if the object has none.
func (s *Sections) Find(hash uint64) (bytes, needs string, ok bool) {
	body := s.reader.body
	t := reader{buf: s.table}
	for t.pos < len(t.buf) {
		e := t.entry()
		fits := e.at >= 0 && e.size > 0 && e.at <= len(body) && e.size <= len(body)-e.at
		if e.hash == hash && fits && !t.bad {
			return body[e.at : e.at+e.size], e.needs, true
		}
	}
	return "", "", false
}

// ReadNeeds reads the memory that a section takes, of an object with dict: bytes of pointer-free values,
// string headers, bytes in all, and for each slab its number, values and takes.
func ReadNeeds(text string, dict *dictionary.Dictionary) (noscan, strings, charged int, slabs string, ok bool) {
	r := reader{buf: text, view: dict.View()}
	r.inside()
	noscan, strings, charged = int(r.uvarint()), int(r.uvarint()), int(r.uvarint())
	if r.bad || (len(r.buf)-r.pos)%3 != 0 {
		return 0, 0, 0, "", false
	}
	return noscan, strings, charged, r.buf[r.pos:], true
}
