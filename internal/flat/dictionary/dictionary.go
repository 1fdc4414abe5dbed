// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dictionary holds the strings that recur in a store, once.
package dictionary

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultEntries = 1 << 18  // room for the names in a cluster of 100,000 Pods, several times over
	defaultBytes   = 32 << 20 // 128 bytes for each of them
	LongestEntry   = 16 << 10 // managedFields of large objects fit; what is longer hardly recurs
	chunkEntries   = 32       // a reference to one entry keeps the whole chunk
	maxLocations   = 256      // time zones are few; more Locations than this would be a new one for every object
)

// Limits bound a Dictionary. Zero fields stand for the defaults.
type Limits struct {
	// Entries is the largest number of byte strings to hold; 0 stands for 262,144.
	Entries int
	// Bytes is the largest sum of their lengths; 0 stands for 32 MiB.
	Bytes int
}

// Dictionary holds the byte strings that recur among the objects of one store: strings, raw bytes,
// and whole encoded values like a label map or the environment of a container. It holds each of
// them once. A byte string enters when a second object brings it. So a string that is unique to one
// object, like its name or UID, stays in that object, however often the object is encoded again.
//
// A Dictionary only grows, up to its limits. Entries never change or move, so an Object can be
// decoded with the dictionary of its encoding for as long as it lives. Entries that are no longer
// used are removed by a change of dictionaries: ask Stale now and then, make a Successor, and move
// the Objects to it with Codec.Reencode. The old dictionary is garbage when its last Object has
// moved.
//
// All methods are safe for concurrent use. Reading takes no lock; adding an entry does.
type Dictionary struct {
	alone  Annex // of objects with this dictionary and without parts
	seed   maphash.Seed
	limits Limits

	chunks     atomic.Pointer[[]*chunk] // written under mu, published before published grows
	published  atomic.Uint32            // entries that readers may ask for
	index      atomic.Pointer[hashIndex]
	doorkeeper *doorkeeper
	locations  atomic.Pointer[[]*time.Location] // written under mu
	wear       wear
	asked      [16]atomic.Pointer[numbered] // what NumberOf has found; each is written once

	mu    sync.Mutex // guards all writing to chunks, index and locations, and arena
	arena *arena
}

// Annex is what an object refers to beside its bytes. It never changes.
type Annex struct {
	Dict  *Dictionary // nil if none
	Parts []string    // the memory of the strings of a large object; nil for a small one
}

// Alone returns the annex of all small objects with this dictionary.
func (d *Dictionary) Alone() *Annex { return &d.alone }

// Seed returns the seed of Hash. No two dictionaries have the same seed: package encode knows a dictionary by it.
func (d *Dictionary) Seed() maphash.Seed { return d.seed }

// chunk is a run of entries. An entry is written once, before it is published.
type chunk [chunkEntries]string

// New returns an empty dictionary. It takes memory as it fills.
func New(limits Limits) *Dictionary {
	if limits.Entries <= 0 {
		limits.Entries = defaultEntries
	}
	if limits.Bytes <= 0 {
		limits.Bytes = defaultBytes
	}
	limits.Entries = min(limits.Entries, 1<<30)
	d := &Dictionary{seed: maphash.MakeSeed(), limits: limits, doorkeeper: &doorkeeper{}, arena: &arena{next: firstArena}}
	d.alone.Dict = d
	return d
}

// Stats says what a Dictionary holds.
type Stats struct {
	Entries int // byte strings
	Bytes   int // sum of their lengths
	Heap    int // estimate of all memory that the dictionary takes
}

// Stats returns what the dictionary holds now.
func (d *Dictionary) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{
		Entries: int(d.published.Load()),
		Bytes:   d.arena.sum,
		Heap:    d.arena.held + d.doorkeeper.size(),
	}
	if c := d.chunks.Load(); c != nil {
		s.Heap += cap(*c)*8 + len(*c)*chunkEntries*16
	}
	if x := d.index.Load(); x != nil {
		s.Heap += len(x.slots) * 8
	}
	return s
}

// Hash returns the hash of s under the seed of this dictionary.
func (d *Dictionary) Hash(s string) uint64 { return maphash.String(d.seed, s) }

// Find returns the number of the entry s, whose hash is h.
func (d *Dictionary) Find(h uint64, s string) (uint32, bool) {
	x := d.index.Load()
	if x == nil {
		return 0, false
	}
	chunks := *d.chunks.Load()
	mask := uint64(len(x.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		slot := x.slots[i&uint64(len(x.slots)-1)].Load()
		if slot == 0 {
			return 0, false
		}
		if uint32(slot>>32) != uint32(h>>32) {
			continue
		}
		id := uint32(slot) - 1
		if int(id/chunkEntries) >= len(chunks) { // entered since chunks was read
			chunks = *d.chunks.Load()
		}
		if chunks[id/chunkEntries][id%chunkEntries] == s {
			return id, true
		}
	}
}

// numbered is an entry and its number.
type numbered struct {
	entry  string
	number uint64
}

// NumberOf returns the number of the entry s, if there is one. It is quick for the few entries that
// are asked for again and again, as by a reader that looks for a label in many objects. A nil
// dictionary has no entries.
func (d *Dictionary) NumberOf(s string) (number uint64, ok bool) {
	if d == nil || s == "" {
		return 0, false
	}
	slot := &d.asked[(len(s)^int(s[len(s)-1]))%len(d.asked)]
	known := slot.Load()
	if known != nil && known.entry == s {
		return known.number, true
	}
	id, ok := d.Find(d.Hash(s), s)
	if ok && known == nil {
		slot.Store(&numbered{entry: strings.Clone(s), number: uint64(id)})
	}
	return uint64(id), ok
}

// Intern returns the number of s. It enters s if an object other than owner brought s before.
func (d *Dictionary) Intern(h uint64, owner uint32, s string) (uint32, bool) {
	if id, ok := d.Find(h, s); ok {
		return id, true
	}
	return d.Offer(h, owner, s)
}

// Offer notes that owner brings s, which Find did not find. It enters s if another object brought
// it before.
func (d *Dictionary) Offer(h uint64, owner uint32, s string) (uint32, bool) {
	if len(s) > LongestEntry || !d.doorkeeper.admit(h, owner, d.wear.encoded.Load()) {
		return 0, false
	}
	return d.add(h, s)
}

// add enters a copy of s, unless s is there already or the limits forbid it.
func (d *Dictionary) add(h uint64, s string) (uint32, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id, ok := d.Find(h, s); ok {
		return id, true
	}
	id := d.published.Load()
	if int(id) >= d.limits.Entries || d.arena.sum+len(s) > d.limits.Bytes {
		d.wear.refused.Add(1)
		return 0, false
	}
	own := d.arena.copy(s)
	d.appendLocked(id, own)
	d.published.Store(id + 1)
	d.indexLocked(h, id)
	return id, true
}

// appendLocked writes entry id, which must be the next free one.
func (d *Dictionary) appendLocked(id uint32, s string) {
	var chunks []*chunk
	if c := d.chunks.Load(); c != nil {
		chunks = *c
	}
	if int(id) == len(chunks)*chunkEntries {
		grown := append(chunks, new(chunk))
		d.chunks.Store(&grown)
		chunks = grown
	}
	chunks[id/chunkEntries][id%chunkEntries] = s
}

// indexLocked adds entry id to the index. If the index is three quarters full, it is replaced by a
// larger one.
func (d *Dictionary) indexLocked(h uint64, id uint32) {
	x := d.index.Load()
	if x != nil && int(id) < len(x.slots)*3/4 {
		x.insert(h, id)
		return
	}
	size := 64
	if x != nil {
		size = 2 * len(x.slots)
	}
	grown := newHashIndex(size)
	v := d.View()
	for i := range id + 1 {
		s, _ := v.Entry(uint64(i))
		grown.insert(d.Hash(s), i)
	}
	d.index.Store(grown)
}

// Location returns the number under which this dictionary keeps l.
func (d *Dictionary) Location(l *time.Location) (int, bool) {
	if i, ok := findLocation(d.Zones(), l); ok {
		return i, true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	zones := d.Zones()
	if i, ok := findLocation(zones, l); ok {
		return i, true
	}
	if len(zones) == maxLocations {
		return 0, false
	}
	grown := append(zones[:len(zones):len(zones)], l)
	d.locations.Store(&grown)
	return len(zones), true
}

// Zones returns the locations that the dictionary keeps. A nil dictionary has none.
func (d *Dictionary) Zones() []*time.Location {
	if d == nil {
		return nil
	}
	if z := d.locations.Load(); z != nil {
		return *z
	}
	return nil
}

// findLocation returns where l stands among zones.
func findLocation(zones []*time.Location, l *time.Location) (int, bool) {
	for i, z := range zones {
		if z == l {
			return i, true
		}
	}
	return 0, false
}

// View is the part of a dictionary that was published when the view was taken.
type View struct {
	chunks []*chunk
	n      uint64
}

// View returns the entries published so far. A nil dictionary has no entries.
func (d *Dictionary) View() View {
	if d == nil {
		return View{}
	}
	n := d.published.Load() // read before chunks, because chunks are published first
	if n == 0 {
		return View{}
	}
	return View{chunks: *d.chunks.Load(), n: uint64(n)}
}

// Entry returns entry id.
func (v *View) Entry(id uint64) (string, bool) {
	if s := v.Pointer(id); s != nil {
		return *s, true
	}
	return "", false
}

// Pointer returns the address of entry id, or nil if there is no such entry. The string there never
// changes.
func (v *View) Pointer(id uint64) *string {
	if id >= v.n {
		return nil
	}
	return &v.chunks[id/chunkEntries][id%chunkEntries]
}

// Encoded notes that one more object was encoded.
func (d *Dictionary) Encoded() { d.wear.encoded.Add(1) }

// Stale says whether about half of the dictionary, or more, is probably unused, so that a change to
// a Successor pays. Live is the number of Objects of this dictionary that the store keeps. The
// store gives this number, because a count of encoded and released Objects would be wrong by each
// Object that is encoded and never kept. A call costs next to nothing. It is enough to ask once in
// about a thousand writes.
func (d *Dictionary) Stale(live int) bool {
	entries := d.published.Load()
	now, lowest := d.wear.measure(uint64(entries), int64(live))
	return now > 2*lowest && entries >= Lasting
}

// Successor returns an empty dictionary with the same limits, to which the live Objects can be
// moved.
func (d *Dictionary) Successor() *Dictionary { return New(d.limits) }
