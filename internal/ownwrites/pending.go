// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import "time"

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
	set.entries.Scan(func(e *Entry[V]) bool {
		if len(all) == limit {
			return false
		}
		if _, now := e.in(state, set.uid); !e.passed(now) {
			all = append(all, Pending{Key: e.Key, Outcome: e.Outcome, Revision: e.Revision, Noted: e.noted, Bytes: e.size.bytes()})
		}
		return true
	})
	return all
}
