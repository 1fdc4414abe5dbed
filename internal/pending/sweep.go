// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"cmp"
	"slices"
	"time"

	"github.com/tarn-dev/tarn/internal/note"
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
	if w.sweeper.timer == nil && (w.now.len() > 0 || len(w.sweeper.ended) > 0) {
		w.sweeper.timer = time.AfterFunc(sweepAfter, w.sweep)
	}
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
		_, _ = w.ask(Target{})
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
		unread = unread || k.minimum == unknown && now.Sub(k.noted) >= askAfter && now.Sub(w.sweeper.asked) >= askAfter
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
	if !w.now.needed(k, state) {
		return nil
	}
	if k.outcome != note.Gone && w.now.reached(state) >= max(k.at, k.minimum) || now.Sub(k.noted) < deadline { // what the cache cannot hold stays
		return k
	}
	if _, there := state.Get(k.Key); there || k.look().Outcome != note.Hidden { // otherwise reads show the same
		w.sweeper.ended = append(w.sweeper.ended, Ending{k.look(), state.Revision(), false})
	}
	return nil
}

// Pending is a pending or an ambiguous write for people who look at it.
type Pending struct {
	Key      string // a prefix, if all keys with it are ambiguous
	Outcome  note.Outcome
	Revision uint64 // 0 if it is not known
	Noted    time.Time
	Bytes    int
}

// Ending is the end of a write that the watch has not reached.
type Ending struct {
	Pending
	Reached uint64 // of the watch
	// NoRoom says that there was no room, which is told once until nothing is pending. Otherwise the watch was too late.
	NoRoom bool
}

func (k *statement[V]) look() Pending {
	p := Pending{Key: k.Key, Outcome: k.outcome, Revision: cmp.Or(k.item.Revision, k.at), Noted: k.noted, Bytes: entryBytes + len(k.Key) + k.bytes}
	if k.minimum > k.at {
		p.Outcome, p.Revision = note.Ambiguous, k.minimum
	}
	if p.Revision == unknown {
		p.Revision = 0
	}
	return p
}

// Size returns how many keys and prefixes there are, and how many bytes they take.
func (w *Writes[V]) Size() (count, bytes int) {
	if !w.Empty() {
		count, bytes = w.set.Load().len(), w.set.Load().bytes
	}
	return count, bytes
}

// All returns what is pending about a target, up to limit: prefixes, and keys in their order. What the newest state has reached is not.
func (w *Writes[V]) All(of Target, limit int) (all []Pending) {
	if w.Empty() {
		return nil
	}
	v, _ := w.look(of)
	for _, k := range slices.AppendSeq(v.set.prefixes.Values(), v.set.all(of, "")) {
		if len(all) < limit && of.covers(k.Target) && v.set.needed(k, v.state) {
			all = append(all, k.look())
		}
	}
	return all
}
