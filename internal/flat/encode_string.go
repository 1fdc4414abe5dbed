// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"hash/maphash"
	"math"
	"strings"
	"unique"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// A string is written as a number whose lowest bits say what follows. xxx1 is the number of a
// dictionary entry. xx00 is a length, and the bytes follow: the string stands inline. xx10 is the
// position of a string that stands inline earlier in this object or, counted from 1, in its parts. In
// a section, the position counts from the start of the section, and the string stands there, see
// section.go. In a byte slice, position 0, where no string can stand, announces pieces: the length of the whole
// follows, and then the strings that it consists of.

// markPieces is the number that announces pieces.
const markPieces = 2

// splitLength is the length in bytes from which a byte slice that is not in the dictionary is split
// into pieces, each of which may be in the dictionary.
const splitLength = 128

// string writes a string.
func (e *encoder) string(s string) {
	if len(s) < shortString {
		e.charged += len(s)
		e.inline(s)
		return
	}
	h := maphash.String(e.seed, s)
	if e.dict != nil {
		if id, ok := e.dict.Find(h, s); ok {
			e.uvarint(uint64(id)<<1 | 1)
			return
		}
	}
	if e.reference(h, s) {
		return
	}
	e.private++
	// A string that will stand alone goes to the parts at once if the object is certain to have
	// parts.
	if len(s) > pinLimit || len(s) > longString && len(e.buf) > pinLimit {
		at := e.split.apart(s)
		e.uvarint(uint64(at)<<2 | 2)
		e.inlined.add(h, at, 0, 0)
		return
	}
	at := len(e.buf)
	e.split.mention(at, 0)
	e.inline(s)
	e.inlined.add(h, at-e.inlined.base, len(e.buf)-len(s), len(s))
}

// reference writes s, whose hash is h and which is not in the dictionary, as a reference. The
// reference is to the same string earlier in the object, or to the dictionary entry that s becomes
// now. It returns false if s is neither.
func (e *encoder) reference(h uint64, s string) bool {
	if x := e.inlined.find(h); x != nil && e.inlinedText(x) == s {
		e.private++
		if x.len > 0 {
			e.split.mention(len(e.buf), e.inlined.base)
		}
		e.uvarint(uint64(x.at)<<2 | 2)
		return true
	}
	if e.dict != nil {
		if id, ok := e.dict.Offer(h, e.owner, s); ok {
			e.uvarint(uint64(id)<<1 | 1)
			return true
		}
	}
	return false
}

// inline writes a string with its bytes.
func (e *encoder) inline(s string) {
	e.uvarint(uint64(len(s)) << 2)
	e.buf = append(e.buf, s...)
}

// bytes writes a byte slice that is not nil, like a string or in pieces.
func (e *encoder) bytes(b []byte) {
	e.carve(uintptr(len(b)), 1)
	e.charged += len(b)
	s := stringOf(b)
	if e.dict == nil || len(s) < splitLength {
		e.string(s)
		return
	}
	if len(s) <= dictionary.LongestEntry { // the dictionary has no longer ones
		h := maphash.String(e.seed, s)
		if id, ok := e.dict.Find(h, s); ok {
			e.uvarint(uint64(id)<<1 | 1)
			return
		}
		if e.reference(h, s) {
			return
		}
	}
	e.uvarint(markPieces)
	e.uvarint(uint64(len(s)))
	for len(s) > 0 {
		n := pieceLength(s)
		e.string(s[:n])
		s = s[n:]
	}
}

// pieceLength returns the length of the next piece of s. Large byte slices in Kubernetes objects
// are mostly the FieldsV1 of managedFields. This is JSON that many objects have in common, except a
// few keys of list items like "k:{\"ip\":\"10.0.0.1\"}". So such a key is a piece of its own. A
// slice without such keys stays in one piece.
func pieceLength(s string) int {
	const before, after = `"k:{`, `}":`
	if strings.HasPrefix(s, before) {
		if i := strings.Index(s, after); i >= 0 {
			return i + len(after)
		}
		return len(s)
	}
	if i := strings.Index(s, before); i > 0 {
		return i
	}
	return len(s)
}

// handle writes the string behind a unique.Handle.
func (e *encoder) handle(p unsafe.Pointer) {
	e.string((*(*unique.Handle[string])(p)).Value())
}

// metadataOwner returns the identity hash of the object with the ObjectMeta at p.
func (e *encoder) metadataOwner(p unsafe.Pointer) uint32 {
	m := (*metav1.ObjectMeta)(p)
	return e.identity(string(m.UID), m.Namespace, m.Name)
}

// identity returns a hash of the UID or, without a UID, of name and namespace.
func (e *encoder) identity(uid, namespace, name string) uint32 {
	if uid != "" {
		return uint32(maphash.String(e.seed, uid))
	}
	return uint32(maphash.String(e.seed, name) ^ maphash.String(e.seed, namespace)<<1)
}

// stringOf returns b as a string without copying. The caller makes sure that nobody writes to b
// while the string is in use.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

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

// inlinedText returns the string that x remembers.
func (e *encoder) inlinedText(x *inlinedSlot) string {
	if x.len == 0 {
		return e.split.at(int(x.at))
	}
	return stringOf(e.buf[x.start : x.start+x.len])
}
