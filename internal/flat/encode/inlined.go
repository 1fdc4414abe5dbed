// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"math"
)

// inlined remembers the strings that stand inline in the object that is being written, so that a
// second equal string refers to the first. It forgets a string when another one takes its slot.
type inlined struct {
	scope
	last  uint32 // epoch ever begun
	slots [256]inlinedSlot
}

// scope is the part of an object within which strings refer to one another: a section, or all that is
// in no section.
type scope struct {
	epoch uint32
	base  int // where the positions in references count from
}

// inlinedSlot is one remembered string.
type inlinedSlot struct {
	hash  uint64
	epoch uint32 // of the scope to which the string belongs
	at    uint32 // position of its length, as in a reference
	start uint32 // position of its bytes
	len   uint32 // of the bytes; 0 if the string is in a part
}

// reset forgets all.
func (l *inlined) reset() {
	if l.last > math.MaxUint32/2 { // far more than the sections of an object are left
		*l = inlined{}
	}
	l.enter(0)
}

// enter begins a scope at a position, and returns the one that it interrupts.
func (l *inlined) enter(base int) (outer scope) {
	outer = l.scope
	l.last++
	l.scope = scope{l.last, base}
	return outer
}

// add remembers a string.
func (l *inlined) add(h uint64, at, start, n int) {
	if uint64(max(at, start+n)) <= 1<<32-1 {
		l.slots[h%uint64(len(l.slots))] = inlinedSlot{hash: h, epoch: l.epoch, at: uint32(at), start: uint32(start), len: uint32(n)}
	}
}

// find returns the string that was remembered with that hash.
func (l *inlined) find(h uint64) *inlinedSlot {
	x := &l.slots[h%uint64(len(l.slots))]
	if x.hash != h || x.epoch != l.epoch {
		return nil
	}
	return x
}
