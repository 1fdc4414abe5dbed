// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"strings"
	"unsafe"
)

const (
	// Block is the number of bytes that a reader of a string keeps in memory at most, without those of the string.
	Block = 1 << BlockBits
	// BlockBits is its logarithm.
	BlockBits = 12
	// Long is the length in bytes above which a string gets memory of its own, so that little room of a block is left unused.
	Long = Block / 4

	firstArena = 1 << 10 // bytes: the blocks of an arena double from here,
	lastArena  = Block   // to here
)

// arena is the memory of the strings of a dictionary. It consists of blocks, each shared by many
// short strings. A reader that keeps a string keeps its whole block, so blocks have a bound, and a
// long string gets memory of its own.
type arena struct {
	rest []byte // free bytes of the newest block
	next int    // size of the next block
	held int    // bytes of all blocks and of the strings that stand alone
	sum  int    // of the lengths of all strings
}

// copy returns a copy of s in memory of the arena.
func (a *arena) copy(s string) string {
	a.sum += len(s)
	if len(s) > Long {
		a.held += len(s)
		return strings.Clone(s)
	}
	if len(s) > len(a.rest) {
		a.rest = make([]byte, a.next)
		a.held += a.next
		a.next = min(2*a.next, lastArena)
	}
	own := a.rest[:len(s):len(s)]
	a.rest = a.rest[len(s):]
	copy(own, s)
	return unsafe.String(unsafe.SliceData(own), len(own))
}
