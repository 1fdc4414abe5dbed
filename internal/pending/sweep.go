// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// deadline is how long a write stays that the watch does not reach: longer than the minute in
	// which a server sends a bookmark, and than the longest pause of a Reflector that tries again.
	deadline = 5 * time.Minute
	// sweepAfter is how long after a change what the watch has reached is removed, and how often. Reads do not need it,
	// so it only has to be soon enough that they do not look at many statements in vain.
	sweepAfter = 250 * time.Millisecond
	// askAfter is how long the minimum revision of an ambiguous write is unknown before the server is asked though nobody
	// reads, and how often that is at most.
	askAfter = 10 * time.Second
)

// sweeper has sweep called as long as there is anything.
type sweeper struct {
	timer *time.Timer // nil if there is nothing to sweep
	asked time.Time   // when the server was last asked though nobody reads
	ended []Ending    // to be told: that calls functions of the user, so it needs a goroutine that holds no lock
}

func (w *Writes[V]) sweepLaterLocked() {
	if w.sweeper.timer == nil && (w.set.Load() != nil || len(w.sweeper.ended) > 0) {
		w.sweeper.timer = time.AfterFunc(sweepAfter, w.sweep)
	}
}

// endLocked has told that a statement ends. That there is no room is told once, until nothing is pending.
func (w *Writes[V]) endLocked(k *statement[V], state *watchcache.Snapshot[V], noRoom bool) {
	if !noRoom || !w.told {
		w.sweeper.ended = append(w.sweeper.ended, Ending{k.look(), state.Revision(), noRoom})
	}
	w.told = w.told || noRoom
}

// sweep removes what the state has reached and what is past its deadline, tells what has ended, and asks for the revision if
// something is ambiguous that nobody has read for long.
func (w *Writes[V]) sweep() {
	ended, unread := w.sweepOnce()
	for _, e := range ended {
		if w.life.Err() != nil {
			return
		}
		w.options.Ended(e)
	}
	if unread { // the revision of the answer bounds all that was ambiguous before
		_, _ = w.ask(w.life, Target{})
	}
}

func (w *Writes[V]) sweepOnce() (ended []Ending, unread bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		return nil, false
	}
	state, now := w.options.State(), time.Now()
	w.now.change(func(k *statement[V]) *statement[V] {
		unread = unread || k.at == unknown && now.Sub(k.noted) >= askAfter && now.Sub(w.sweeper.asked) >= askAfter
		return w.leftLocked(k, state, now)
	})
	if unread {
		w.sweeper.asked = now
	}
	ended, w.sweeper.ended = w.sweeper.ended, nil
	w.sweeper.timer = nil
	w.publishLocked(state)
	return ended, unread
}

// leftLocked returns k, or nil if it is not needed any more.
func (w *Writes[V]) leftLocked(k *statement[V], state *watchcache.Snapshot[V], now time.Time) *statement[V] {
	late := w.now.reached(state) < k.at
	switch {
	case k.All && !late, !k.All && !w.now.needed(k, state):
		return nil
	case k.outcome != Gone && !late || now.Sub(k.noted) < deadline: // what the cache cannot hold stays
		return k
	}
	if _, there := state.Get(k.Key); there || k.outcome != Hidden { // otherwise reads show the same
		w.endLocked(k, state, false)
	}
	return nil
}
