// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"sync"
	"time"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// sharedReplay lets the event handlers that replay a state at the same time share the objects that are
// made for it: the initial state, what a new list has changed, and resyncs. The handler that comes to an
// object first makes it, and the others find it here. Handlers that begin together are expected
// from the moment at which there is something to replay, whichever of them gets a core first. A
// handler that replays alone, and objects that are kept decoded, cost nothing here.
//
// The shared objects are bounded in bytes, whatever the size of the state and however slow a
// handler is. When the handler in front has filled the bound, it removes the older half. If others
// have not come to the end of that half yet, it first waits for them, because they may only lack a
// core to run on; but not longer than replayPatience. A handler that is still behind then is slow,
// or waits for something: it is alone: nobody waits for it, and it makes its objects by itself
// until it meets the others again. So a slow handler may hold up the others once, and for a moment.
// Nothing is here while no handler replays.
type sharedReplay struct {
	form  *object.Form
	limit int // bytes

	mu             sync.Mutex // guards what follows, and the replayers; it comes after all others
	replayers      map[*replayer]struct{}
	active         int    // replayers that are under way
	expected       uint64 // the revision of the newest list
	found          map[stepKey]*step
	oldest, newest *step  // all of found, linked in the order in which they were made
	number         uint64 // of the newest step ever
	bytes          int
	waiting        waiting
}

// waiting is what the handlers in front wait for.
type waiting struct {
	moved  chan struct{} // closed when no handler is behind the step; nil if nobody waits
	number uint64        // of the step
}

const (
	// replayBytes bounds the objects for the replays of an informer: some four hundred Pods. It is little
	// beside a state that is worth sharing.
	replayBytes = 4 << 20
	// replayPatience is how often a handler in front waits for those behind, for replayPause each time.
	// Several pauses are more than one as long as all of them: a process may have had no core in one.
	replayPatience = 10
	replayPause    = 10 * time.Millisecond
)

// replayer is a handler of a sharedReplay.
type replayer struct {
	underway bool      // it replays, or is about to
	alone    bool      // nobody waits for it
	at       uint64    // the number of the step that it has come to
	due      time.Time // of its next resync; zero if there is none, or as long as it is under way
}

// stepKey identifies an event of a replay by the objects that it leads from and to, and by the view that shows them.
type stepKey struct {
	from, to object.Identity
	view     *object.View
}

// step is an event of a replay, with the objects that are made for it.
type step struct {
	delivery
	stepKey
	number uint64
	bytes  int // of the objects, when they are made
	next   *step
}

func newSharedReplay(form *object.Form) *sharedReplay {
	return &sharedReplay{form: form, limit: replayBytes}
}

// join adds a handler, which is about to replay the initial state.
func (s *sharedReplay) join() *replayer {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &replayer{}
	if s.replayers == nil {
		s.replayers, s.found = map[*replayer]struct{}{}, map[stepKey]*step{}
	}
	s.replayers[w] = struct{}{}
	s.beginLocked(w)
	return w
}

// leave removes a handler. It may be called more than once.
func (s *sharedReplay) leave(w *replayer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.replayers, w)
	s.endLocked(w)
}

// expect says that all handlers are about to replay: there will be a new state of that revision.
func (s *sharedReplay) expect(revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected = revision
	for w := range s.replayers {
		s.beginLocked(w)
	}
}

// begin says that a replay of w begins.
func (s *sharedReplay) begin(w *replayer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginLocked(w)
}

// beginResync says that the resync of w begins, and that others due at the same time are about to
// begin.
func (s *sharedReplay) beginResync(w *replayer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := w.due
	w.due = time.Time{}
	s.beginLocked(w)
	for other := range s.replayers {
		if other.due.Equal(due) {
			s.beginLocked(other)
		}
	}
}

// end says that a replay of w ends.
func (s *sharedReplay) end(w *replayer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(w)
}

// endAt says that a replay up to the state of a revision ends. If that state is before the newest list,
// the replay of the list follows, and the others wait for it already.
func (s *sharedReplay) endAt(w *replayer, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision >= s.expected {
		s.endLocked(w)
	}
}

// schedule says when the next resync of w is due; zero is never.
func (s *sharedReplay) schedule(w *replayer, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.due = due
}

func (s *sharedReplay) beginLocked(w *replayer) {
	if !w.underway {
		w.underway = true
		s.active++
	}
	w.alone, w.at = false, s.number
	if s.oldest != nil {
		w.at = s.oldest.number - 1 // others have begun before, it may catch up with them
	}
}

func (s *sharedReplay) endLocked(w *replayer) {
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

// deliver returns the objects of an event of the replay of w, as a view shows them.
func (s *sharedReplay) deliver(w *replayer, e *event, view *object.View) objects {
	if isDecoded(e.Previous.Value) || isDecoded(e.Item.Value) { // it has no identity, and need not be made
		return newDelivery(s.form, nil).as(view)
	}
	there, mine := s.find(w, stepKey{e.Previous.Value.Identity(), e.Item.Value.Identity(), view})
	if mine {
		s.settle(there, there.make(e))
	}
	return there.as(view)
}

func isDecoded(o object.Object) bool { return !o.IsZero() && !o.IsFlat() }

// make makes the objects of an event that handlers will ask for, and returns about how many bytes
// of memory they take.
func (s *step) make(e *event) int {
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

// find returns the step of what, and whether w made it and has to settle it.
func (s *sharedReplay) find(w *replayer, what stepKey) (there *step, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there = s.found[what]; there != nil {
		before := w.at
		w.at, w.alone = max(w.at, there.number), false
		s.movedLocked(before)
		return there, false
	}
	there = &step{delivery: delivery{form: s.form}, stepKey: what}
	if w.alone || s.active < 2 {
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

// settle says how much memory the objects of a step take, and makes room for it.
func (s *sharedReplay) settle(there *step, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found[there.stepKey] != there {
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

// awaitLocked waits for the handlers behind a step, but not long.
func (s *sharedReplay) awaitLocked(there *step) {
	for patience := replayPatience; patience > 0 && s.anyBehindLocked(there.number); {
		if s.waiting.moved == nil {
			s.waiting.moved, s.waiting.number = make(chan struct{}), there.number
		}
		s.waiting.number = min(s.waiting.number, there.number)
		moved, pause := s.waiting.moved, time.NewTimer(replayPause)
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

// movedLocked wakes the handlers that wait, if w was the last one that they waited for. Before is
// where w was.
func (s *sharedReplay) movedLocked(before uint64) {
	if s.waiting.moved != nil && before < s.waiting.number && !s.anyBehindLocked(s.waiting.number) {
		close(s.waiting.moved)
		s.waiting.moved = nil
	}
}

// anyBehindLocked reports whether some handler has not come to the step of a number yet.
func (s *sharedReplay) anyBehindLocked(number uint64) bool {
	for w := range s.replayers {
		if w.isBehind(number) {
			return true
		}
	}
	return false
}

func (w *replayer) isBehind(number uint64) bool { return w.underway && !w.alone && w.at < number }

// removeOldestLocked removes the oldest step. The handlers behind it are alone from now on.
func (s *sharedReplay) removeOldestLocked() {
	gone := s.oldest
	for w := range s.replayers {
		if w.isBehind(gone.number) {
			w.alone = true
		}
	}
	s.oldest = gone.next
	s.bytes -= gone.bytes
	delete(s.found, gone.stepKey)
}
