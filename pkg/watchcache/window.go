// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

// EventType says what happened to an object.
type EventType int

// The types of events.
const (
	Added EventType = iota + 1
	Updated
	Deleted
)

// Event is one change of the state.
type Event[V any] struct {
	Type EventType
	// Item is the object as written. Of a deleted one it has the key and the
	// revision of the deletion.
	Item Item[V]
	// Previous is the object as it was before; the zero Item of an added one.
	Previous Item[V]
	// Attached is what the writer attached.
	Attached any
}

// window holds the newest events, each at a position in the sequence of all events:
// from first up to, and without, next.
type window[V any] struct {
	capacity    int
	slots       []slot[V] // a ring; the event at position p is in slot p modulo its length
	first, next uint64
}

type slot[V any] struct {
	event   Event[V]
	readers int // active subscribers that have not read it
}

func (w *window[V]) full() bool { return w.next-w.first == uint64(w.capacity) }

func (w *window[V]) at(position uint64) *slot[V] {
	return &w.slots[position%uint64(w.capacity)]
}

// append adds an event that so many active subscribers will read; the window is not
// full.
func (w *window[V]) append(event Event[V], readers int) {
	if w.slots == nil {
		w.slots = make([]slot[V], w.capacity)
	}
	s := w.at(w.next)
	*s = slot[V]{event: event, readers: readers}
	if readers == 0 {
		s.empty()
	}
	w.next++
}

// empty lets go of the values.
func (s *slot[V]) empty() {
	s.event.Item.Value, s.event.Previous.Value, s.event.Attached = *new(V), *new(V), nil
}

// dropFirst removes the oldest event.
func (w *window[V]) dropFirst() {
	*w.at(w.first) = slot[V]{}
	w.first++
}

// clear removes all events.
func (w *window[V]) clear() {
	for w.first < w.next {
		w.dropFirst()
	}
}

// read says that one subscriber has read the events of the positions from up to, and
// without, to. Those that have left the window are passed over. An event that all have
// read stays, but not what is large about it: nobody goes back to it.
func (w *window[V]) read(from, to uint64) {
	for p := max(from, w.first); p < min(to, w.next); p++ {
		s := w.at(p)
		if s.readers--; s.readers == 0 {
			s.empty()
		}
	}
}
