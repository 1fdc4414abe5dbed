// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"hash/maphash"
	"math"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/plan"
	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// Most values of an object are those of other objects: the ports of a container, its probes, the labels
// of a workload. Such a value is the number of a dictionary entry. To find the number, an encoder has
// to write the value, and to look for each of its strings first.
//
// So a MessageEncoder remembers numbers by the messages of values. The same message of the same type is the same
// value, and a value that is in the dictionary as a whole has nothing in it that depends on its object. As with
// sections, a hash stands for the message. Its seed is that of the dictionary, so that one table serves several.

const (
	// leastKnown and mostKnown are the lengths in bytes between which a message is looked for.
	leastKnown, mostKnown = 12, 512
	// deepestKnown is the depth up to which a message is looked for. Each of its levels takes two bytes at least, and is up to
	// three levels of the encoder, so that MaxDepth is not reached in a known value.
	deepestKnown = 200
	// firstKnown is how many objects an encoder has written when it makes the table, of 20 KiB: most encoders write a few.
	firstKnown = 64
	// knownValues is the number of values in the table, of 40 bytes each.
	knownValues = 1 << 9
	// mostKnownSlabs is how many types with slabs a value in the table can have.
	mostKnownSlabs = 5
)

// known is the table of an encoder. It is garbage with the encoder, which nobody keeps who does not use it.
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
	used    bool // since another value wanted this place
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

// shareable writes a value that may be in the dictionary as a whole.
func (e *MessageEncoder) shareable(v *wire.Value, b []byte, n int) {
	if v.Dated || e.known.values == nil || e.dict == nil || e.depth > deepestKnown || len(b) < leastKnown || len(b) > mostKnown {
		e.composite(v, b, n)
		return
	}
	// Types do not move. An odd factor brings all bits of an address into the hash.
	hash := maphash.Bytes(e.seed, b) ^ uint64(uintptr(unsafe.Pointer(v)))*0x9e3779b97f4a7c15
	place := &e.known.values[hash%knownValues]
	switch {
	case place.hash == hash && place.size > 0:
		place.used = true
		e.addKnown(place)
	case place.used: // it stays for now
		place.used = false
		e.composite(v, b, n)
	default:
		at, private, before := len(e.buf), e.private, e.needs.note()
		e.composite(v, b, n)
		now, ok := e.needs.since(&before)
		if ok && e.private == private && len(e.buf)-at <= len(now.text) && e.err == nil {
			now.hash, now.size = hash, uint8(copy(now.text[:], e.buf[at:]))
			*place = now
		}
	}
}

// composite writes such a value that is not known.
func (e *MessageEncoder) composite(v *wire.Value, b []byte, n int) {
	switch v.Plan.Kind {
	case plan.KindSlice:
		e.slice(v.Elem, b, n)
	case plan.KindStruct:
		e.whole(v, b)
	case plan.KindStringMap:
		e.stringMap(b, n)
	case plan.KindQuantityMap:
		e.quantityMap(v, b, n)
	case plan.KindMap:
		e.anyMap(v, b, n)
	}
}

// addKnown writes a value that is known.
func (e *MessageEncoder) addKnown(k *knownValue) {
	e.buf = append(e.buf, k.text[:k.size]...)
	if k.noscan > 0 {
		e.needs.noscan = (e.needs.noscan+7)&^7 + uintptr(k.noscan)
	}
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
	full             slabCount
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
	// Where the first value began there could be less to align than elsewhere.
	noscan := n.noscan - before.noscan
	if noscan > 0 {
		noscan += before.noscan % 8
	}
	strings, charged := n.strings-before.strings, n.charged-before.charged
	if noscan > math.MaxUint16 || strings > math.MaxUint16 || charged > math.MaxUint32 || n.slabs.counts[0] != before.full || before.seen > len(before.counts) {
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
