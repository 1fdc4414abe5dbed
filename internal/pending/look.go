// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Pending is a pending or an ambiguous write for people who look at it.
type Pending struct {
	Key      string // a prefix, if all keys with it are ambiguous
	Outcome  Outcome
	Revision uint64
	Noted    time.Time
	Bytes    int
}

// Size returns how many keys and prefixes there are, and how many bytes they take.
func (w *Writes[V]) Size() (count, bytes int) {
	if w.Empty() {
		return 0, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.entries.tree.Len() + len(w.now.prefixes), w.now.size.objects + w.now.size.keys
}

// All returns what is pending, up to limit: prefixes, and keys in their order.
func (w *Writes[V]) All(limit int) (all []Pending) {
	s := w.loaded()
	if s == nil {
		return nil
	}
	state := w.options.State()
	for _, a := range s.prefixes[:min(limit, len(s.prefixes))] {
		if !a.settledBy(pointOf(state)) {
			all = append(all, Pending{Key: a.Key, Outcome: Ambiguous, Revision: a.minimum.revision, Noted: a.noted, Bytes: a.bytes})
		}
	}
	for key, e := range s.entries.with(Target{All: true}, "") {
		if len(all) == limit {
			break
		}
		if p, ok := w.pending(keyed[V]{key, e}, state); ok {
			all = append(all, p)
		}
	}
	return all
}

// At returns what is pending for a key, unless there is nothing, or the newest state has reached it.
func (w *Writes[V]) At(key string) (p Pending, ok bool) {
	s := w.loaded()
	if s == nil {
		return p, false
	}
	e, ok := s.entries.get(key)
	if !ok {
		return p, false
	}
	return w.pending(keyed[V]{key, e}, w.options.State())
}

func (w *Writes[V]) loaded() *set[V] {
	if w == nil {
		return nil
	}
	return w.set.Load()
}

func (w *Writes[V]) pending(e keyed[V], state *watchcache.Snapshot[V]) (p Pending, ok bool) {
	item, there := state.Get(e.key)
	open := e.ambiguous != nil && !e.ambiguous.settledBy(pointOf(state))
	if k := e.known; k == nil || !k.over(pointOf(state), item, there, w.options.UID) {
		e.known = nil
	}
	if !open && e.known == nil {
		return p, false
	}
	p = Pending{Key: e.key, Outcome: Ambiguous, Bytes: e.size.objects + e.size.keys}
	if e.known != nil {
		p.Noted = e.known.noted
		p.Revision = e.known.at.revision
	}
	if open {
		p.Noted, p.Revision = e.ambiguous.noted, e.ambiguous.minimum.revision
		return p, true
	}
	if p.Outcome = e.ending(state, false).Outcome; p.Outcome == Shown {
		p.Revision = e.known.revision
	}
	return p, true
}
