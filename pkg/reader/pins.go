// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"math"
	"slices"
)

// pin counts the memory that a kept state holds beside the state of now: versions of objects
// that were replaced or deleted since, and nodes of trees that writes have copied.
//
// All states between the write that made a version and the write that took it away hold the
// version, and it goes with the last of them. So it is counted once, at the newest of these
// states, together with the first of them.
type pin struct {
	position uint64 // of the state among the events
	rewrites uint64 // of all objects, before the state was taken
	revision uint64 // of the state, which has all versions that are not newer
	reading  bool   // a page behind the first was read, and not yet the last
	own      int    // bytes of what lies over the state
	objects  tree
	indexes  tree
	versions []span // of which no newer state is a holder
}

// tree is a tree of a state, or all those of its indexes.
type tree struct {
	bytes  int // of all its nodes
	items  int // in it
	writes int // to it since the state was taken, up to the one of the next pin
}

// nodeItems is about how many items a node of a tree has: 31 if they came in their order, up
// to 63 otherwise.
const nodeItems = 36

// copied estimates the bytes of the nodes that were copied for the writes. The first write
// to a node copies it, and writes are spread over the nodes by chance.
func (t *tree) copied() int {
	nodes := max(1, float64(t.items)/nodeItems)
	return int(float64(t.bytes) * -math.Expm1(-float64(t.writes)/nodes))
}

// span is the bytes of what all states from first on hold, up to that of the pin.
type span struct {
	first *pin
	bytes int
}

// held returns the bytes that are counted at p.
func (p *pin) held() int {
	held := p.copied() + p.own
	for _, s := range p.versions {
		held += s.bytes
	}
	return held
}

func (p *pin) copied() int { return p.objects.copied() + p.indexes.copied() }

func (p *pin) add(first *pin, bytes int) {
	i := slices.IndexFunc(p.versions, func(s span) bool { return s.first == first })
	if i < 0 {
		i = len(p.versions)
		p.versions = append(p.versions, span{first: first})
	}
	p.versions[i].bytes += bytes
}

// pins are those of all states that are kept.
type pins struct {
	list  []*pin // in the order of the states
	held  int    // bytes that all hold together
	since uint64 // the position from which on states can have what there is now
}

// insert adds a pin in its place.
func (p *pins) insert(added *pin) {
	i := len(p.list)
	for i > 0 && p.list[i-1].position > added.position {
		i--
	}
	p.list = slices.Insert(p.list, i, added)
}

// wrote counts a write that took a version away, or none. How large it is is asked only if a
// state has it.
func (p *pins) wrote(was *item, reindexed bool) {
	first := len(p.list)
	newest := p.list[first-1]
	p.held -= newest.held()
	newest.objects.writes++
	if reindexed {
		newest.indexes.writes++
	}
	for first > 0 && p.list[first-1].revision >= was.Revision && p.list[first-1].position >= p.since {
		first--
	}
	if first < len(p.list) && !was.Value.IsZero() {
		newest.add(p.list[first], len(was.Key)+was.Value.Bytes())
	}
	p.held += newest.held()
}

// remove takes out the pin of a state that is not kept any more. What this was the newest
// holder of is held by the one before it, if that is a holder at all.
func (p *pins) remove(gone *pin) {
	i := slices.Index(p.list, gone)
	p.list = slices.Delete(p.list, i, i+1)
	if i > 0 {
		before := p.list[i-1]
		before.objects.writes += gone.objects.writes
		before.indexes.writes += gone.indexes.writes
		for _, s := range gone.versions {
			if s.first != gone {
				before.add(s.first, s.bytes)
			}
		}
	}
	for _, later := range p.list[i:] {
		if n := slices.IndexFunc(later.versions, func(s span) bool { return s.first == gone }); n >= 0 {
			bytes := later.versions[n].bytes
			later.versions = slices.Delete(later.versions, n, n+1)
			later.add(p.list[i], bytes)
		}
	}
	p.count()
}

// idle returns the bytes that only states hold whose lists nobody reads on.
func (p *pins) idle() (bytes int) {
	for i, one := range p.list {
		if !one.reading {
			bytes += one.copied() + one.own
		}
		for _, s := range one.versions {
			holders := p.list[slices.Index(p.list, s.first) : i+1]
			if !slices.ContainsFunc(holders, func(p *pin) bool { return p.reading }) {
				bytes += s.bytes
			}
		}
	}
	return bytes
}

// count adds up what all pins hold.
func (p *pins) count() {
	p.held = 0
	for _, one := range p.list {
		p.held += one.held()
	}
}
