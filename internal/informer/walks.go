// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"sync"
	"time"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// walks lets the event handlers that walk a state at the same time share the objects that are made
// for it: the initial state, what a new list has changed, and resyncs. The handler that comes to an
// object first makes it, and the others find it here. Handlers that begin together are expected
// from the moment at which there is something to walk, whichever of them gets a core first. A
// handler that walks alone, and objects that are kept decoded, cost nothing here.
//
// What is here is bounded in bytes, whatever the size of the state and however slow a handler is.
// When the handler in front has filled the bound, it removes the older half. If others have not
// come to the end of that half yet, it first waits for them, because they may only lack a core to
// run on; but not longer than walkPatience. A handler that is still behind then is slow, or waits
// for something: it is lost, which means that nobody waits for it, and that it makes its objects by
// itself until it meets the others again. So a slow handler may hold up the others once, and for a
// moment. Nothing is here while no handler walks.
type walks struct {
	form  *object.Form
	limit int // bytes

	mu             sync.Mutex // guards what follows, and the walkers; it comes after all others
	walkers        map[*walker]struct{}
	active         int    // walkers that are under way
	expected       uint64 // the revision of the newest list
	found          map[stage]*station
	oldest, newest *station // all of found, linked in the order in which they were made
	number         uint64   // of the newest station ever
	bytes          int
	waiting        waiting
}

// waiting is what the handlers in front wait for.
type waiting struct {
	moved  chan struct{} // closed when no handler is behind the station; nil if nobody waits
	number uint64        // of the station
}

const (
	// walkBytes bounds the objects for the walks of an informer: some four hundred Pods. It is little
	// beside a state for which it matters that its objects are made once.
	walkBytes = 4 << 20
	// walkPatience is how often a handler in front waits for those behind, for walkPause each time.
	// Several pauses are more than one as long as all of them: a process may have had no core in one.
	walkPatience = 10
	walkPause    = 10 * time.Millisecond
)

// walker is a handler of walks.
type walker struct {
	underway bool      // it walks, or is about to
	lost     bool      // it has lost its companions, who need not look after it
	at       uint64    // the number of the station that it has come to
	due      time.Time // of its next resync; zero if there is none, or as long as it is under way
}

// stage identifies an event of a walk by the objects that it leads from and to, and by the view that shows them.
type stage struct {
	from, to object.Identity
	view     *object.View
}

// station is an event of a walk, with the objects that are made for it.
type station struct {
	delivery
	stage
	number uint64
	bytes  int // of the objects, when they are made
	next   *station
}

func newWalks(form *object.Form) *walks {
	return &walks{form: form, limit: walkBytes, walkers: map[*walker]struct{}{}, found: map[stage]*station{}}
}

// join adds a handler, which is about to walk the initial state.
func (s *walks) join() *walker {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &walker{}
	s.walkers[w] = struct{}{}
	s.departLocked(w)
	return w
}

// leave removes a handler. It may be called more than once.
func (s *walks) leave(w *walker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.walkers, w)
	s.arriveLocked(w)
}

// expect says that all handlers are about to walk: there will be a new state of that revision.
func (s *walks) expect(revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected = revision
	for w := range s.walkers {
		s.departLocked(w)
	}
}

// depart says that a walk of w begins.
func (s *walks) depart(w *walker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.departLocked(w)
}

// departForResync says that the resync of w begins, and that the resyncs that are due at the same
// time are about to.
func (s *walks) departForResync(w *walker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := w.due
	w.due = time.Time{}
	s.departLocked(w)
	for other := range s.walkers {
		if other.due.Equal(due) {
			s.departLocked(other)
		}
	}
}

// arrive says that a walk of w ends.
func (s *walks) arrive(w *walker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arriveLocked(w)
}

// arriveAt says that a walk to the state of a revision ends. If it was to a state before the newest
// list, a walk to that follows, for which the others wait already.
func (s *walks) arriveAt(w *walker, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision >= s.expected {
		s.arriveLocked(w)
	}
}

// schedule says when the next resync of w is due; zero is never.
func (s *walks) schedule(w *walker, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.due = due
}

func (s *walks) departLocked(w *walker) {
	if !w.underway {
		w.underway = true
		s.active++
	}
	w.lost, w.at = false, s.number
	if s.oldest != nil {
		w.at = s.oldest.number - 1 // others have begun before, it may catch up with them
	}
}

func (s *walks) arriveLocked(w *walker) {
	if !w.underway {
		return
	}
	w.underway = false
	s.movedLocked(w.at)
	if s.active--; s.active == 0 {
		clear(s.found)
		s.oldest, s.newest, s.bytes = nil, nil, 0
	}
}

// deliver returns the objects of an event of the walk of w, as a view shows them.
func (s *walks) deliver(w *walker, e *event, view *object.View) objects {
	if isDecoded(e.Previous.Value) || isDecoded(e.Item.Value) { // it has no identity, and need not be made
		return newDelivery(s.form, nil).as(view)
	}
	there, mine := s.find(w, stage{e.Previous.Value.Identity(), e.Item.Value.Identity(), view})
	if mine {
		s.settle(there, there.make(e))
	}
	return there.as(view)
}

func isDecoded(o object.Object) bool { return !o.IsZero() && !o.IsFlat() }

// make makes the objects of an event that handlers will ask for, and returns about how many bytes
// of memory they take.
func (s *station) make(e *event) int {
	objects := s.as(s.view)
	made := objects.after
	if e.Type == watchcache.Deleted {
		made = objects.before
	}
	obj, err := made(e)
	switch {
	case err != nil:
		return 0
	case e.Type == watchcache.Updated: // the old object is about as large
		return 2 * object.MemoryOf(obj)
	}
	return object.MemoryOf(obj)
}

// find returns the station of what, and whether w made it and has to settle it.
func (s *walks) find(w *walker, what stage) (there *station, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there = s.found[what]; there != nil {
		before := w.at
		w.at, w.lost = max(w.at, there.number), false
		s.movedLocked(before)
		return there, false
	}
	there = &station{delivery: delivery{form: s.form}, stage: what}
	if w.lost || s.active < 2 {
		return there, false
	}
	s.number++
	there.number, w.at = s.number, s.number
	if s.newest == nil {
		s.oldest = there
	} else {
		s.newest.next = there
	}
	s.newest, s.found[what] = there, there
	return there, true
}

// settle says how much memory the objects of a station take, and makes room for it.
func (s *walks) settle(there *station, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found[there.stage] != there {
		return
	}
	there.bytes = bytes
	if s.bytes += bytes; s.bytes <= s.limit {
		return
	}
	last := s.oldest // to remove: many at once, so that handlers seldom wait
	for left := s.bytes - last.bytes; left > s.limit/2 && last.next != s.newest; left -= last.bytes {
		last = last.next
	}
	s.awaitLocked(last)
	for s.oldest != nil && s.oldest != s.newest && s.oldest.number <= last.number {
		s.removeOldestLocked()
	}
}

// awaitLocked waits for those who have not come to a station yet, but not long.
func (s *walks) awaitLocked(there *station) {
	for patience := walkPatience; patience > 0 && s.anyBehindLocked(there.number); {
		if s.waiting.moved == nil {
			s.waiting.moved, s.waiting.number = make(chan struct{}), there.number
		}
		s.waiting.number = min(s.waiting.number, there.number)
		moved, pause := s.waiting.moved, time.NewTimer(walkPause)
		s.mu.Unlock()
		select {
		case <-moved:
		case <-pause.C:
			patience--
		}
		pause.Stop()
		s.mu.Lock()
	}
}

// movedLocked wakes those who wait, if w was the last for whom they did. Before is where w was.
func (s *walks) movedLocked(before uint64) {
	if s.waiting.moved != nil && before < s.waiting.number && !s.anyBehindLocked(s.waiting.number) {
		close(s.waiting.moved)
		s.waiting.moved = nil
	}
}

// anyBehindLocked reports whether some handler has not come to the station of a number yet.
func (s *walks) anyBehindLocked(number uint64) bool {
	for w := range s.walkers {
		if w.isBehind(number) {
			return true
		}
	}
	return false
}

func (w *walker) isBehind(number uint64) bool { return w.underway && !w.lost && w.at < number }

// removeOldestLocked removes the oldest station. Those who have not come to it are lost.
func (s *walks) removeOldestLocked() {
	gone := s.oldest
	for w := range s.walkers {
		if w.isBehind(gone.number) {
			w.lost = true
		}
	}
	s.oldest = gone.next
	s.bytes -= gone.bytes
	delete(s.found, gone.stage)
}
