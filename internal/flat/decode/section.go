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

// Find returns the bytes of the section whose message has that hash, and the memory that it takes, for
// ReadNeeds. It returns false if the object has none.
func (s *Sections) Find(hash uint64) (bytes, needs string, ok bool) {
	body := s.reader.body
	t := reader{buf: s.table}
	for t.pos < len(t.buf) && !t.bad {
		same := t.uint64() == hash
		at, size, n := int(t.uvarint()), int(t.uvarint()), t.uvarint()
		from := t.pos
		t.over(n)
		fits := at >= 0 && size > 0 && at <= len(body) && size <= len(body)-at
		if same && fits && !t.bad {
			return body[at : at+size], t.buf[from:t.pos], true
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
