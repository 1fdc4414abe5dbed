// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// sweep removes the entries that the state has passed, and those whose deadline has passed.
func (o *Overlay[V]) sweep() {
	if newest := o.sweepOnce(); newest > 0 {
		o.prove(newest)
	}
}

// sweepOnce is sweep without a question to the server. If there is one to ask, it returns the number of the
// newest entry for which it is asked, otherwise zero.
func (o *Overlay[V]) sweepOnce() (newest uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer == nil {
		return 0 // closed
	}
	o.timer.Stop() // if it is not the one that has called
	o.timer = nil
	state, now := o.options.State(), time.Now()
	due, stay := o.sweepDoubtsLocked(state, now), 0
	for _, e := range o.entries.all() {
		switch {
		case o.done(state, e):
			o.removeLocked(e.Key)
		case now.Sub(e.noted) >= deadline:
			if o.lasts(state, e) {
				stay++ // there is room for their keys, see fitLocked
				continue
			}
			_, held := state.Get(e.Key)
			o.removeLocked(e.Key)
			if !o.passed(state, e) && (held || e.Lost != nil || e.Outcome != Gone && e.Outcome != Hidden) { // else reads show the same
				o.options.Ended(Ending{Key: e.Key, Outcome: e.Outcome, Revision: e.Revision, Reached: state.Revision()})
			}
		case e.unproven():
			if !o.seenLocked(state, e) && now.Sub(e.noted) >= proveAfter {
				due = true
			}
		}
	}
	o.sweepFloorLocked(state, now)
	o.fitLocked() // others may need more room by now
	o.publishLocked()
	if stay > 0 && stay == o.entries.len() && o.floor == nil && len(o.doubts) == 0 {
		o.told = 0
		o.sweepAfterLocked(deadline)
	}
	if !due || now.Sub(o.proved) < proveAfter {
		return 0
	}
	o.proved = now
	return o.noted
}

func (o *Overlay[V]) sweepFloorLocked(state *watchcache.Snapshot[V], now time.Time) {
	switch f := o.floor; {
	case floorPassed(f, state):
		o.floor = nil
	case now.Sub(f.noted) >= deadline:
		o.floor = nil
		o.options.Ended(Ending{Outcome: Changed, Revision: f.revision, Reached: state.Revision()})
	}
}

// seenLocked looks whether the state has the object of a deletion by now: then the state has passed the
// deletion when it does not have it any more.
func (o *Overlay[V]) seenLocked(state *watchcache.Snapshot[V], e *Entry[V]) bool {
	_, now := e.in(state, &o.options)
	seen := e.Outcome == Gone && now.there && now.uid == e.UID && now.at > 0
	if seen {
		next := *e
		next.Revision, next.unheld = now.revision, false
		o.replaceLocked(e, &next)
	}
	return seen
}

// prove asks the server how far it is: a state that is as far has passed the doubts and the unproven entries that
// were noted before, newest being the number of the last of them.
func (o *Overlay[V]) prove(newest uint64) {
	before := o.options.State()
	answer, err := o.options.Ask(o.life, "")
	if err != nil || answer.Revision == 0 {
		return // it is asked again
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changeDoubtsLocked(func(d *doubt) *doubt {
		if d.revision > 0 || d.number > newest {
			return d
		}
		return atRevision(d, before, answer.Revision)
	})
	for _, e := range o.entries.all() {
		if !e.unproven() || e.number > newest {
			continue
		}
		next := *e
		if next.proof = answer.Revision; answer.Revision < before.Revision() { // it was restored from a backup
			next.history = before.Restored() + 1
		}
		o.replaceLocked(e, &next)
	}
	o.publishLocked()
}

// replaceLocked puts an entry of the same size in the place of e.
func (o *Overlay[V]) replaceLocked(e, next *Entry[V]) {
	o.removeLocked(e.Key)
	o.addLocked(next)
}
