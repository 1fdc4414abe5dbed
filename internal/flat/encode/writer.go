// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/form"
)

const (
	// shortString is the length in bytes below which a string always stands inline: a number would
	// hardly be shorter.
	shortString = 3
	// shortShared is the encoded length in bytes below which a value does not enter the dictionary.
	shortShared = 6
)

// longestHeader is the size in bytes of the longest header without a table of sections.
const longestHeader = form.HeaderSize + 2*binary.MaxVarintLen64 + 2*form.SlabKinds + 1

// writer writes the numbers and strings of one object.
type writer struct {
	destination
	buf []byte

	// private counts the parts of the object that no other object is expected to have: strings that
	// are not in the dictionary, references to them, and times. A value without such parts may
	// enter the dictionary as a whole. Times count because a search of the dictionary for values
	// with times costs more than the few hits save.
	private int
	depth   int
	err     error
	needs   needs
	inlined *inlined
	split   *splitter
	pairs   *pairStack
}

// seed returns the seed of hashes that are used within this process only.
var seed = sync.OnceValue(maphash.MakeSeed)

// destination is the dictionary that an object is encoded with, and the identity of the object that
// the dictionary is told.
type destination struct {
	dict  *dictionary.Dictionary // may be nil
	seed  maphash.Seed
	owner uint32 // hash of the object's identity
}

// reset prepares for the next object.
func (w *writer) reset(dict *dictionary.Dictionary) {
	w.dict, w.owner = dict, 0
	w.buf = w.buf[:0]
	w.private, w.depth, w.err = 0, 0, nil
	w.seed = seed()
	if dict != nil {
		w.seed = dict.Seed()
	}
	w.inlined.reset()
	w.needs.reset()
	w.pairs.reset()
	w.split.reset()
}

// refuse notes the first reason why this object cannot be encoded. The method finish adds the type.
func (w *writer) refuse(reason string) {
	if w.err == nil {
		w.err = &ValueError{Reason: reason}
	}
}

// enter goes one level deeper. It returns false, and refuses the object, when the level is too
// deep.
func (w *writer) enter() bool {
	w.depth++
	if w.depth <= form.MaxDepth {
		return true
	}
	w.refuse("it is nested too deep or contains itself")
	return false
}

// uvarint writes an unsigned number.
func (w *writer) uvarint(v uint64) {
	if v < 0x80 {
		w.buf = append(w.buf, byte(v))
		return
	}
	w.buf = binary.AppendUvarint(w.buf, v)
}

// varint writes a signed number.
func (w *writer) varint(v int64) { w.uvarint(uint64(v<<1) ^ uint64(v>>63)) }

// zeros is room for a bitmap.
var zeros [8]byte

// share replaces the bytes from position at by the number of a dictionary entry, if other objects
// have the same bytes. It does nothing if these bytes contain a part that is private to this
// object: before is the count of private parts at that position. Every shared form starts with a
// number: its lowest bit is zero if the value follows, and one if it is the number of a dictionary
// entry.
func (w *writer) share(at, before int) bool {
	if w.dict == nil || w.private != before || len(w.buf)-at < shortShared {
		return false
	}
	b := form.StringOf(w.buf[at:])
	id, ok := w.dict.Intern(w.dict.Hash(b), w.owner, b)
	if ok {
		w.buf = w.buf[:at]
		w.uvarint(uint64(id)<<1 | 1)
	}
	return ok
}
