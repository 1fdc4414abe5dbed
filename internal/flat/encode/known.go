// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"hash/maphash"
	"math"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// Most values of an object are those of other objects: the ports of a container, its probes, the labels
// of a workload. Such a value is the number of a dictionary entry. To find the number, an encoder has
// to write the value, and to look for each of its strings first.
//
// So a MessageEncoder remembers what it wrote by the messages of values: the number of an entry, or a few bytes that are no
// entry. The same message of the same type is the same value. A value without a part that is private to its object is written
// the same in each object. As with sections, a hash stands for the message. Its seed is that of the dictionary, and no two
// dictionaries have the same, so that one table serves several.

const (
	// leastKnown and mostKnown are the lengths in bytes between which a message is looked for.
	leastKnown, mostKnown = 12, 512
	// deepestKnown is the depth up to which a message is looked for. A known value does not reach MaxDepth: two bytes of its message
	// are at most three levels, those of a slice of pointers to structs.
	deepestKnown = 200
	// firstKnown is how many objects an encoder has written when it makes the table, of 20 KiB: most encoders write a few.
	firstKnown = 64
	// knownValues is the number of values in the table, of 40 bytes each.
	knownValues = 1 << 9
	// mostKnownSlabs is how many types with slabs a value in the table can have.
	mostKnownSlabs = 5
)

const _ = uint(form.MaxDepth - deepestKnown - 3*mostKnown/2 - 1) // does not compile if it is negative

// known is the table of an encoder. The pool drops an encoder that is not used, and its table with it.
type known struct {
	objects int // that were begun, up to firstKnown
	values  []knownValue
}

// knownValue is a value that a dictionary has. The zero value is none.
type knownValue struct {
	hash    uint64
	text    [shortShared - 1]byte // what was written: the number of an entry, or so little that it is no entry
	size    uint8                 // bytes of text
	noscan  uint16                // this and what follows is what the value adds to needs
	charged uint32
	strings uint16
	slabs   [mostKnownSlabs]slabNeed
	used    bool // the value was found since another one last wanted this place
}

// slabNeed is what a value takes of a slab, or nothing.
type slabNeed struct{ number, values, takes uint8 }

// begin notes that an object will be written.
func (k *known) begin() {
	if k.objects == firstKnown {
		return
	}
	if k.objects++; k.objects == firstKnown {
		k.values = make([]knownValue, knownValues)
	}
}

// lookable says whether a value is looked for in the table: it may be in the dictionary as a whole.
func (e *MessageEncoder) lookable(v *wire.Value, b []byte) bool {
	return !v.Dated && e.dict != nil && e.depth <= deepestKnown && len(b) >= leastKnown && len(b) <= mostKnown
}

// place returns the hash of a message of v, and where a value with that hash stands. There must be a table.
func (e *MessageEncoder) place(v *wire.Value, b []byte) (hash uint64, at *knownValue) {
	// The plan keeps v, so that no other value has its address.
	hash = maphash.Bytes(e.seed, b) ^ uint64(uintptr(unsafe.Pointer(v)))*0x9e3779b97f4a7c15
	return hash, &e.known.values[hash%knownValues]
}

// learn puts the value into its place that was written from a position on. Private and needs are those of before.
func (e *MessageEncoder) learn(hash uint64, place *knownValue, at, private int, before *needsBefore) {
	now, ok := e.needs.since(before)
	if ok && e.private == private && len(e.buf)-at <= len(now.text) && e.err == nil {
		now.hash, now.size = hash, uint8(copy(now.text[:], e.buf[at:]))
		*place = now
	}
}

// addKnown writes a value that is known. The needs are aligned before, see shareable.
func (e *MessageEncoder) addKnown(k *knownValue) {
	e.buf = append(e.buf, k.text[:k.size]...)
	e.needs.noscan += uintptr(k.noscan)
	e.needs.strings += int(k.strings)
	e.needs.charged += int(k.charged)
	for _, s := range k.slabs {
		if s.takes > 0 {
			e.needs.slabs.merge(s.number, s.values, s.takes)
		}
	}
}

// needsBefore are the needs of an object before one of its values was written.
type needsBefore struct {
	noscan           uintptr
	strings, charged int
	full             slabCount // the takes for which there was no room
	seen             int
	counts           [48]slabCount // of the types that had been seen
}

// note returns the needs now.
func (n *needs) note() (now needsBefore) {
	now = needsBefore{noscan: n.noscan, strings: n.strings, charged: n.charged, full: n.slabs.counts[0], seen: len(n.slabs.seen)}
	for i, number := range n.slabs.seen[:min(now.seen, len(now.counts))] {
		now.counts[i] = n.slabs.counts[number]
	}
	return now
}

// since returns what was added. It returns false if that is more than a knownValue can say, or if a slab was full.
func (n *needs) since(before *needsBefore) (k knownValue, ok bool) {
	noscan, full := n.noscan-before.noscan, n.slabs.counts[0]
	strings, charged := n.strings-before.strings, n.charged-before.charged
	if noscan > math.MaxUint16 || strings > math.MaxUint16 || uint64(charged) > math.MaxUint32 ||
		full != before.full || full.takes == math.MaxUint8 || before.seen > len(before.counts) {
		return k, false
	}
	k.noscan, k.strings, k.charged = uint16(noscan), uint16(strings), uint32(charged)
	next := 0
	for i, number := range n.slabs.seen {
		now, was := n.slabs.counts[number], slabCount{}
		if i < before.seen {
			was = before.counts[i]
		}
		if now == was {
			continue
		}
		if next == len(k.slabs) {
			return k, false
		}
		k.slabs[next] = slabNeed{number, now.values - was.values, now.takes - was.takes}
		next++
	}
	return k, true
}
