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
	// sweepSoon is how long after a note what the watch has reached is removed. Reads do not need it, so it only has to
	// be soon enough that they do not look at many entries in vain. The pause doubles with each sweep, up to sweepLate.
	sweepSoon, sweepLate = 100 * time.Millisecond, 800 * time.Millisecond
	// proveAfter is how long something is ambiguous from an unknown revision on, before the server is asked for its
	// revision, and how often that is at most.
	proveAfter = 10 * time.Second
)

// sweeper calls sweep as long as there is anything.
type sweeper struct {
	timer  *time.Timer // nil if there is nothing to sweep
	pause  time.Duration
	proved time.Time // when the server was last asked for its revision
}

func (s *sweeper) stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// sweepSoonLocked has sweep called soon after a change.
func (w *Writes[V]) sweepSoonLocked() {
	if s := &w.sweeper; s.timer == nil || s.pause > sweepSoon {
		s.stop()
		s.pause, s.timer = sweepSoon, time.AfterFunc(sweepSoon, w.sweep)
	}
}

// sweep removes what the state has reached, and what is past its deadline.
func (w *Writes[V]) sweep() {
	if w.sweepOnce() {
		w.prove()
	}
}

// sweepOnce is sweep without a question to the server. It reports whether there is one to ask.
func (w *Writes[V]) sweepOnce() (prove bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		return false
	}
	state, now := w.options.State(), time.Now()
	pause := min(2*w.sweeper.pause, sweepLate)
	w.sweeper.stop()
	due := func(a *ambiguous[V]) bool { return !a.minimum.known() && now.Sub(a.noted) >= proveAfter }
	for _, e := range w.now.entries.all(Target{All: true}) {
		if e.ambiguous != nil && due(e.ambiguous) {
			prove = true
		}
		if next := w.leftLocked(e, state, now); next != e.entry {
			w.setLocked(e.key, next)
		}
	}
	w.changePrefixesLocked(func(a *ambiguous[V]) *ambiguous[V] {
		prove = prove || due(a)
		if late := now.Sub(a.noted) >= deadline; !a.settledBy(pointOf(state)) && !late {
			return a
		} else if late {
			w.options.Ended(keyed[V]{a.Key, entry[V]{ambiguous: a}}.ending(state, false))
		}
		return nil
	})
	w.publishLocked(state)
	if w.sweeper.timer != nil {
		w.sweeper.stop()
		w.sweeper.pause, w.sweeper.timer = pause, time.AfterFunc(pause, w.sweep)
	}
	if prove = prove && now.Sub(w.sweeper.proved) >= proveAfter; prove {
		w.sweeper.proved = now
	}
	return prove
}

// leftLocked returns what is left of an entry.
func (w *Writes[V]) leftLocked(e keyed[V], state *watchcache.Snapshot[V], now time.Time) entry[V] {
	left := e.entry
	if k := e.known; k != nil && !w.neededLocked(e.key, k, state) {
		left.known = nil
	} else if k != nil && (k.gone || pointOf(state).before(k.at)) && now.Sub(k.noted) >= deadline {
		_, there := state.Get(e.key)
		if left.known = nil; there || k.content.Load().shows() { // otherwise reads show the same
			w.options.Ended(keyed[V]{e.key, entry[V]{known: k}}.ending(state, false))
		}
	}
	if a := e.ambiguous; a != nil && a.settledBy(pointOf(state)) {
		left.ambiguous = nil
	} else if a != nil && now.Sub(a.noted) >= deadline {
		left.ambiguous = nil
		w.options.Ended(keyed[V]{e.key, entry[V]{ambiguous: a}}.ending(state, false))
	}
	return left
}

// prove asks the server for its revision: what was ambiguous before had happened by then.
func (w *Writes[V]) prove() {
	s := w.set.Load()
	before := w.options.State()
	if s == nil {
		return
	}
	revision, err := w.options.Revision(w.life)
	if err != nil || revision == 0 {
		return // it is asked again
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &answered[V]{asked: s.number}
	if w.life.Err() != nil || !w.placeLocked(a, s, before, revision) {
		return
	}
	for _, e := range w.now.entries.all(Target{All: true}) {
		if e.ambiguous != nil {
			e.ambiguous = e.ambiguous.by(a.at, a.asked)
			w.setLocked(e.key, e.entry)
		}
	}
	w.changePrefixesLocked(func(p *ambiguous[V]) *ambiguous[V] { return p.by(a.at, a.asked) })
	w.publishLocked(w.options.State())
}
