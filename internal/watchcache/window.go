// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"sort"
	"time"
)

// EventType says what happened to an object.
type EventType int

// The types of events.
const (
	Added EventType = iota + 1
	Updated
	Deleted
)

// Event is one change of the state.
type Event[V, A any] struct {
	Type EventType
	// Position is the place of the event among all that were written: each has the next
	// one, whoever it is given to, and a Replace takes one. The events of a [Diff] have none.
	Position uint64
	// Item is the object as written. For a deletion it has the key and the revision.
	Item Item[V]
	// Previous is the object as it was before; the zero Item of an added one.
	Previous Item[V]
	// Attached is what the writer attached; the zero value in the events of a [Diff], which
	// nobody wrote.
	Attached A
}

// limits say how many events a window holds.
type limits struct {
	floor    int           // so many of the newest are held however old they are
	ceiling  int           // and so many at most
	minAge   time.Duration // younger ones are held beyond the floor
	maxBytes int           // that events may hold; 0 for no limit
	budget   *Budget       // the limit with others; nil for none
	values   bool          // they are held after all have read them
}

// window holds the newest events, each at a position in the sequence of all events:
// from first up to, and without, next.
type window[V, A any] struct {
	limits
	size        func(V) int  // of a value that an event holds; nil if nothing bounds it
	slots       []slot[V, A] // a ring; the event at position p is in slot p modulo its length
	first, next uint64
	bytes       int    // that the events hold
	oldest      uint64 // all events after this revision are there
}

type slot[V, A any] struct {
	event    Event[V, A]
	silent   bool          // for undoing it, and not to be read
	readers  int32         // merging cursors that are active and have not read it
	revision uint64        // of the engine after the event
	written  time.Duration // when, in the engine's time
	bytes    int           // that it holds
}

// minRing is the length of the smallest ring, and that of the first: cursors that keep up
// have an event or two before them.
const minRing = 4

func (w *window[V, A]) len() int { return int(w.next - w.first) }

func (w *window[V, A]) at(position uint64) *slot[V, A] {
	return &w.slots[position%uint64(len(w.slots))]
}

// fit returns what first must be at the time now for more events to have room, which
// hold so many bytes. The newest event stays in any case.
func (w *window[V, A]) fit(more, bytes int, now time.Duration) uint64 {
	first, bytes, room := w.first, w.bytes+bytes, w.room()
	for ; first < w.next; first++ {
		count, oldest := int(w.next-first)+more, w.at(first)
		wanted := count <= w.floor || now-oldest.written < w.minAge
		if count == 1 || wanted && count <= w.ceiling && bytes <= room {
			break
		}
		bytes -= oldest.bytes
	}
	return first
}

// sizeOf returns how many bytes a value counts that an event holds.
func (w *window[V, A]) sizeOf(value V) int {
	if w.size == nil {
		return 0
	}
	return w.size(value)
}

// room returns how many bytes the events may hold now.
func (w *window[V, A]) room() int {
	room := w.budget.room(w.bytes)
	if w.maxBytes > 0 {
		room = min(room, w.maxBytes)
	}
	return room
}

// hold notes that the events hold more bytes, or less.
func (w *window[V, A]) hold(more int) {
	w.bytes += more
	w.budget.hold(more)
}

// append adds an event; there is room. An event that no cursor will read gets a position only. So
// had the events before it, since a cursor that waits for an event waits for all after it.
func (w *window[V, A]) append(s slot[V, A]) {
	if s.readers == 0 && !w.values {
		w.next++
		w.first = w.next
		return
	}
	if w.len() == len(w.slots) {
		w.resize(max(minRing, 2*len(w.slots)))
	}
	s.event.Position = w.next
	*w.at(w.next) = s
	w.hold(s.bytes)
	w.next++
}

// resize moves the events to a ring of another length.
func (w *window[V, A]) resize(length int) {
	old := *w
	w.slots = make([]slot[V, A], length)
	for p := w.first; p < w.next; p++ {
		*w.at(p) = *old.at(p)
	}
}

// dropTo removes the events before first. A ring that is three quarters empty is
// halved, so that it does not grow again with the next event.
func (w *window[V, A]) dropTo(first uint64) {
	for ; w.first < first; w.first++ {
		s := w.at(w.first)
		w.oldest = max(w.oldest, s.revision)
		w.hold(-s.bytes)
		*s = slot[V, A]{}
	}
	length := len(w.slots)
	for length > minRing && w.len() <= length/4 {
		length /= 2
	}
	if length != len(w.slots) {
		w.resize(length)
	}
}

// restart removes all events and passes over a position, so that all positions that
// were given out have left the window.
func (w *window[V, A]) restart(revision uint64) {
	w.slots = nil
	w.hold(-w.bytes)
	w.next++
	w.first, w.oldest = w.next, revision
}

// holds reports whether the event at position and all behind it are kept, however many have
// read them.
func (w *window[V, A]) holds(position uint64) bool { return w.values && position >= w.first }

// after returns the position of the first event after revision.
func (w *window[V, A]) after(revision uint64) uint64 {
	return w.first + uint64(sort.Search(w.len(), func(i int) bool {
		return w.at(w.first+uint64(i)).revision > revision
	}))
}

// read says that one cursor has read the events of the positions from up to, and without, to.
// Positions that have left the window are passed over. Events that all cursors have read leave it,
// if there is no History. They are the first ones, since a cursor reads in order.
func (w *window[V, A]) read(from, to uint64) {
	if w.values {
		return
	}
	unread := w.first
	for p := max(from, w.first); p < min(to, w.next); p++ {
		s := w.at(p)
		if s.readers--; s.readers == 0 {
			unread = p + 1
		}
	}
	w.dropTo(unread)
}
