// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"errors"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// ErrCorrupt says that the bytes of an Object were not written by an encoder of its type.
var ErrCorrupt = errors.New("flat: corrupt object bytes")

// reader reads the numbers and strings of one Object. After a failure it stands at the end of its
// bytes and reads zeros, so every loop ends soon. The method finish reports the failure.
type reader struct {
	buf  string          // the bytes that are being read: body, or a dictionary entry
	pos  int             // the next byte of buf
	view dictionary.View // the entries of the dictionary
	body string          // the object without its header
	base int             // where in body the section begins that is being read, if one is
	// annex is the annex of the object, never nil. The position in a string reference counts from
	// the start of the parts, or from the start of the body if there are no parts.
	annex  *annex
	depth  int
	budget int // bytes that may still be allocated: bounds what corrupt bytes can ask for
	bad    bool
}

// header is what an object says before its body.
type header struct {
	flags       byte
	fingerprint byte   // of the type
	noscan      int    // bytes of the pointer-free values
	strings     int    // string headers
	counts      string // of slabs
	many        bool   // other objects have the same counts
	table       string // of sections, see Sections; empty for small objects
}

// open starts reading o behind its header, which it notes in h.
func (r *reader) open(o Object, h *header) bool {
	if len(o.data) < form.HeaderSize {
		return false
	}
	h.flags, h.fingerprint = o.data[0]&^form.FlagSections, o.data[1]
	r.buf, r.pos = o.data, form.HeaderSize
	r.annex = &noAnnex
	if o.annex != nil {
		r.annex, r.view = o.annex, o.annex.Dict.View()
	}
	noscan, strs := r.uvarint(), r.uvarint()
	h.counts, h.many = r.slabs()
	if h.table = ""; o.data[0]&form.FlagSections != 0 { // a caller reads two headers into one
		h.table = r.table()
	}
	if r.bad {
		return false
	}
	r.budget = form.LeastBudget
	r.body = o.data[r.pos:]
	r.buf, r.pos = r.body, 0
	if noscan > form.LargestChunk || strs > form.LargestHeaders {
		return false
	}
	h.noscan, h.strings = int(noscan), int(strs)
	return true
}

// is says whether the header is that of an object of the type of t.
func (h *header) is(t *plan.Root) bool { return h.flags == t.Flags && h.fingerprint == t.Fingerprint }

// fail notes that the bytes are corrupt.
func (r *reader) fail() {
	r.bad = true
	r.pos = len(r.buf)
}

// finish returns ErrCorrupt if reading failed or bytes are left over.
func (r *reader) finish() error {
	if r.bad || r.pos != len(r.buf) {
		return ErrCorrupt
	}
	return nil
}

// enter goes one level deeper. It fails when the level is too deep.
func (r *reader) enter() bool {
	r.depth++
	if r.depth > 4*form.MaxDepth { // one level of the encoder is up to four levels here
		r.fail()
	}
	return !r.bad
}

// charge subtracts an allocation of n bytes from the budget. It fails when the budget is used up.
func (r *reader) charge(n int) bool {
	r.budget -= n
	if r.budget < 0 {
		r.fail()
	}
	return !r.bad
}

// byte reads one byte.
func (r *reader) byte() byte {
	if r.pos >= len(r.buf) {
		r.fail()
		return 0
	}
	b := r.buf[r.pos]
	r.pos++
	return b
}

// uvarint reads an unsigned number.
func (r *reader) uvarint() uint64 {
	if r.pos < len(r.buf) && r.buf[r.pos] < 0x80 {
		r.pos++
		return uint64(r.buf[r.pos-1])
	}
	return r.longUvarint()
}

// longUvarint reads an unsigned number of two bytes or more.
func (r *reader) longUvarint() uint64 {
	var v uint64
	rest := r.buf[r.pos:]
	for i := 0; i < len(rest) && i < 10; i++ {
		b := rest[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			r.pos += i + 1
			return v
		}
	}
	r.fail()
	return 0
}

// varint reads a signed number.
func (r *reader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// uint32 reads four bytes.
func (r *reader) uint32() uint32 {
	if len(r.buf)-r.pos < 4 {
		r.fail()
		return 0
	}
	b := r.buf[r.pos : r.pos+4]
	r.pos += 4
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// uint64 reads eight bytes.
func (r *reader) uint64() uint64 { return uint64(r.uint32()) | uint64(r.uint32())<<32 }

// bitmap reads the bitmap of a group.
func (r *reader) bitmap(g *plan.Group) uint64 {
	if len(r.buf)-r.pos < g.Width {
		r.fail()
		return 0
	}
	var v uint64
	if s := r.buf[r.pos:]; len(s) >= 8 {
		v = uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		v &= g.Bytes
	} else {
		for i := range g.Width {
			v |= uint64(s[i]) << (8 * i)
		}
	}
	r.pos += g.Width
	if v&^g.Valid != 0 {
		r.fail()
		return 0
	}
	return v
}

// place is a position at which reading continues after a dictionary entry.
type place struct {
	buf string
	pos int
}

// shared continues reading in dictionary entry id. It returns the place for leave.
func (r *reader) shared(id uint64) (place, bool) {
	s, ok := r.view.Entry(id)
	if !ok || !r.enter() {
		r.fail()
		return place{}, false
	}
	back := place{r.buf, r.pos}
	r.buf, r.pos = s, 0
	return back, true
}

// leave continues reading at back, after the reference to an entry. It fails unless the entry was
// read to its end.
func (r *reader) leave(back place) {
	if r.pos != len(r.buf) {
		r.bad = true
	}
	r.depth--
	r.buf, r.pos = back.buf, back.pos
	if r.bad {
		r.fail()
	}
}

// inside reads the first number of a value. If this is the number of a dictionary entry, inside
// goes into the entry and reads the first number there. The method outside goes back.
func (r *reader) inside() (h uint64, back place, entered bool) {
	if h = r.uvarint(); h&1 == 0 {
		return h, place{}, false
	}
	if back, entered = r.shared(h >> 1); entered {
		if h = r.uvarint(); h&1 != 0 { // no entry is nothing but another one
			r.fail()
		}
	}
	return h &^ 1, back, entered
}

// outside ends what inside began, and moves r behind the value.
func (r *reader) outside(back place, entered bool) {
	if entered {
		r.leave(back)
	}
}

// table reads the table of sections, whose length stands before it.
func (r *reader) table() string {
	n := r.uvarint()
	from := r.pos
	if r.over(n); r.bad {
		return ""
	}
	return r.buf[from:r.pos]
}

// over skips n bytes.
func (r *reader) over(n uint64) {
	if n > uint64(len(r.buf)-r.pos) {
		r.fail()
		return
	}
	r.pos += int(n)
}

// slabs reads the counts of slabs. It reports whether they are those of many objects, an entry of the dictionary.
func (r *reader) slabs() (counts string, many bool) {
	h := r.uvarint()
	block := r.buf[r.pos:]
	if many = h&1 != 0; many {
		s, ok := r.view.Entry(h >> 1)
		if !ok || len(s) == 0 || s[0]&1 != 0 {
			r.fail()
			return "", false
		}
		h, block = uint64(s[0]), s[1:]
	}
	size := h >> 1 * 2
	if size > uint64(len(block)) {
		r.fail()
		return "", false
	}
	if !many {
		r.pos += int(size)
	}
	return block[:size], many
}
