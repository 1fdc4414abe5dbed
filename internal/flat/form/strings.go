// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package form

import (
	"encoding/binary"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// A string is written as a number whose lowest bits say what follows. xxx1 is the number of a
// dictionary entry. xx00 is a length, and the bytes follow: the string stands inline. xx10 is the
// position of a string that stands inline earlier in this object or, counted from 1, in its parts. In
// a section, the position counts from the start of the section, and the string stands there. In a byte
// slice, position 0, where no string can stand, announces pieces: the length of the whole follows, and
// then the strings that it consists of.

// MarkPieces is the number that announces pieces.
const MarkPieces = 2

// StringOf returns b as a string without copying. The caller makes sure that nobody writes to b
// while the string is in use.
func StringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// A string of a decoded object refers to memory of the flat object, and a reader that keeps the
// string keeps all of that block of memory. So no block is larger than PinLimit, except a block
// that holds one long string. An Object that would be larger is split: its strings stand in parts,
// and its own bytes have references to them. A long string is a part of its own. In both cases a
// decoder copies no string.

const (
	// PinLimit is the number of bytes that a string of a decoded object keeps in memory at most,
	// without its own.
	PinLimit = dictionary.Block
	// PartBits is the number of bits of a position that count within a part. The higher bits are
	// the number of the part.
	PartBits = dictionary.BlockBits
	// LongString is the length in bytes above which a string gets memory of its own, so that little
	// room of a part is left unused.
	LongString = dictionary.Long
)

// InlineAt returns the string that stands inline at a position of a body or a part.
func InlineAt(in string, at uint64) (string, bool) {
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
