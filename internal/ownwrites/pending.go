// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Pending is an entry for people who look at it.
type Pending struct {
	Key      string
	Outcome  Outcome
	Revision uint64
	Noted    time.Time
	Bytes    int
}

// Pending returns what is in doubt, of which the key is a prefix, and the entries that the newest state has
// not passed in the order of their keys, up to limit of both.
func (o *Overlay[V]) Pending(limit int) (all []Pending) {
	set := o.Load()
	if set == nil {
		return nil
	}
	state := o.options.State()
	for _, d := range set.doubts[:min(limit, len(set.doubts))] {
		all = append(all, Pending{Key: d.prefix, Outcome: Unknown, Revision: d.revision, Noted: d.noted})
	}
	for e := range set.entries.with("", "") {
		if len(all) == limit {
			break
		}
		if p, ok := set.pending(state, e); ok {
			all = append(all, p)
		}
	}
	return all
}

// PendingAt returns the entry of a key, unless there is none or the newest state has passed it.
func (o *Overlay[V]) PendingAt(key string) (p Pending, ok bool) {
	set := o.Load()
	if set == nil {
		return p, false
	}
	e := set.entries.get(key)
	if e == nil {
		return p, false
	}
	return set.pending(o.options.State(), e)
}

// pending returns an entry that a state has not passed.
func (s *Set[V]) pending(state *watchcache.Snapshot[V], e *Entry[V]) (p Pending, ok bool) {
	if _, now := e.in(state, s.options); e.passed(now) {
		return p, false
	}
	return Pending{Key: e.Key, Outcome: e.Outcome, Revision: e.Revision, Noted: e.noted, Bytes: e.size.bytes()}, true
}
