// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import "time"

// Pending is a pending or an ambiguous write for people who look at it.
type Pending struct {
	Key      string // a prefix, if all keys with it are ambiguous
	Outcome  Outcome
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
	p := Pending{Key: k.Key, Outcome: k.outcome, Revision: k.at, Noted: k.noted, Bytes: entryBytes + len(k.Key) + k.bytes}
	if k.at == unknown {
		p.Revision = 0
	}
	if k.outcome == Shown {
		p.Revision = k.revision
	}
	return p
}

// Size returns how many keys and prefixes there are, and how many bytes they take.
func (w *Writes[V]) Size() (count, bytes int) {
	if w.Empty() {
		return 0, 0
	}
	s := w.loaded()
	return s.keys.Len() + len(s.prefixes), s.size.objects + s.size.keys
}

// All returns what is pending, up to limit: prefixes, and keys in their order.
func (w *Writes[V]) All(limit int) []Pending { return w.pending(Target{All: true}, limit) }

// At returns what is pending for a key, unless there is nothing, or the newest state has reached it.
func (w *Writes[V]) At(key string) (p Pending, ok bool) {
	for _, p = range w.pending(Target{Key: key}, 1) {
		ok = true
	}
	return p, ok
}

func (w *Writes[V]) pending(of Target, limit int) (all []Pending) {
	if w.Empty() {
		return nil
	}
	s, state := w.loaded(), w.options.State()
	for _, p := range s.prefixes {
		if of.covers(p.Target) && len(all) < limit && s.reached(state) < p.at {
			all = append(all, p.look())
		}
	}
	for k := range s.all(of, "") {
		if len(all) < limit && s.needed(k, state) {
			all = append(all, k.look())
		}
	}
	return all
}
