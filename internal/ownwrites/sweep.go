// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// sweep removes the entries that the state has passed, and those whose deadline has passed.
func (o *Overlay[V]) sweep() {
	if prove := o.sweepOnce(); prove != nil {
		o.prove(prove)
	}
}

// sweepOnce is sweep without a question to the server. If there is one to ask, it returns the newest of
// the entries for which it is asked.
func (o *Overlay[V]) sweepOnce() (prove *Entry[V]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer == nil {
		return nil // closed
	}
	o.timer = nil
	state, now := o.options.State(), time.Now()
	for _, e := range o.entries.Items() {
		switch {
		case o.passed(state, e):
			o.removeLocked(e)
		case now.Sub(e.noted) >= deadline:
			o.removeLocked(e)
			if _, held := state.Get(e.Key); held || e.Lost != nil || e.Outcome != Gone && e.Outcome != Hidden { // else reads show the same
				o.options.Ended(Ending{Key: e.Key, Outcome: e.Outcome, Revision: e.Revision, Reached: state.Revision()})
			}
		case e.Outcome == Gone && e.Revision == 0 && e.proof == 0:
			if due := now.Sub(e.noted) >= proveAfter; !o.seenLocked(state, e) && due && (prove == nil || e.number > prove.number) {
				prove = e
			}
		}
	}
	o.sweepFloorLocked(state, now)
	o.fitLocked() // others may need more room by now
	o.publishLocked()
	if prove != nil && now.Sub(o.proved) < proveAfter {
		return nil
	}
	if prove != nil {
		o.proved = now
	}
	return prove
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
	_, now := e.in(state, o.options.UID)
	seen := now.there && now.uid == e.UID && now.at > 0
	if seen {
		next := *e
		next.Revision = now.revision
		o.replaceLocked(e, &next)
	}
	return seen
}

// prove asks the server how far it is: a state that is as far has passed the deletions that were noted
// before, newest being the last of them.
func (o *Overlay[V]) prove(newest *Entry[V]) {
	ctx, cancel := context.WithTimeout(o.life, askFor)
	defer cancel()
	answer, err := o.options.Ask(ctx, "")
	if err != nil {
		return // it is asked again
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.entries.Items() {
		if e.Outcome == Gone && e.Revision == 0 && e.proof == 0 && e.number <= newest.number {
			next := *e
			next.proof = answer.Revision
			o.replaceLocked(e, &next)
		}
	}
	o.publishLocked()
}

// replaceLocked puts an entry of the same size in the place of e.
func (o *Overlay[V]) replaceLocked(e, next *Entry[V]) {
	o.removeLocked(e)
	o.addLocked(next)
}
