// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"slices"
	"strings"
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// maxDoubts is how many doubts there are. With one more, one of all keys takes the place of all.
	maxDoubts = 16
	// askEach is for how many objects the server is asked one by one. More are listed: then a read makes
	// one request, whatever a program has written before. It is for how many prefixes in doubt the server
	// is asked one by one, too.
	askEach = 8
)

// doubt says that objects with a prefix may have been written, and not which. They may be ones that the
// state has never had. A read asks the server once: for its key, or for a list if that was done for several
// keys already. The doubt ends when the state is as far as the server was after the write. It stays until the state is as
// far as the lists, too. It does not change.
type doubt struct {
	prefix   string
	number   uint64 // in the order in which entries were noted
	noted    time.Time
	revision uint64 // at which the server was after the write; zero until it was asked
	history  int    // of the revision

	// What the server was asked for, maybe before the write: then the answer is enough for reads that had begun.
	keys   []askedKey // askEach at most
	listed []listing
}

// askedKey is a key for which the server has answered.
type askedKey struct {
	key string
	of  uint64 // as that of an entry
}

// covers reports whether key, or any key with prefix if key is empty, is in doubt.
func (d *doubt) covers(prefix, key string) bool {
	if key != "" {
		return strings.HasPrefix(key, d.prefix)
	}
	return strings.HasPrefix(prefix, d.prefix) || strings.HasPrefix(d.prefix, prefix)
}

// asked returns of when the newest question is that was answered, for key, or for all that is in doubt with prefix if
// key is empty: the number of the newest entry of then, zero if there is no such question.
func (d *doubt) asked(prefix, key string) (of uint64) {
	wanted := key
	if key == "" {
		wanted = max(prefix, d.prefix) // one of them is a prefix of the other
	}
	for _, k := range d.keys {
		if k.key == key {
			of = k.of
		}
	}
	for _, l := range d.listed {
		if strings.HasPrefix(wanted, l.prefix) {
			of = max(of, l.of)
		}
	}
	return of
}

// toList returns the prefix of which to list, for a read of keys with prefix.
func (d *doubt) toList(prefix string) string {
	if len(d.listed) >= askEach {
		return d.prefix
	}
	return max(prefix, d.prefix)
}

// doubtPassed reports whether a state has what was written.
func doubtPassed[V any](d *doubt, state *watchcache.Snapshot[V]) bool {
	return d.revision > 0 && state.Restored() >= d.history && state.Revision() >= d.revision
}

// doubted returns a doubt about which a read of key, or of keys with prefix if key is empty, must ask the
// server. The read began when the newest entry had the number began. So it needs no answer to a question of after a
// later doubt: that may have taken the place of one of before.
func (s *Set[V]) doubted(state *watchcache.Snapshot[V], prefix, key string, began uint64) *doubt {
	if s == nil {
		return nil
	}
	for _, d := range s.doubts {
		since := min(d.number, began)
		if !d.covers(prefix, key) || d.asked(prefix, key) >= since || doubtPassed(d, state) {
			continue
		}
		if e := s.entries.get(key); key == "" || e == nil || e.of < since {
			return d
		}
	}
	return nil
}

// Doubt notes that a write may have changed any of the objects with prefix.
func (o *Overlay[V]) Doubt(prefix string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.life.Err() == nil {
		o.doubtLocked(prefix)
		o.publishLocked()
	}
}

func (o *Overlay[V]) doubtLocked(prefix string) {
	var others []*doubt // a new slice: that of before is read
	for _, d := range o.doubts {
		if !strings.HasPrefix(d.prefix, prefix) {
			others = append(others, d)
		}
	}
	if len(others) >= maxDoubts {
		others, prefix = nil, ""
	}
	o.noted++
	o.doubts = append(others, &doubt{prefix: prefix, number: o.noted, noted: time.Now(), history: o.history})
}

// suspectsLocked reports whether it is not known if what is in doubt was written before e or after it.
// What was deleted stays so.
func (o *Overlay[V]) suspectsLocked(e *Entry[V]) bool {
	switch {
	case e.Outcome == Unknown, e.Outcome == Gone && !e.Collection, e.Outcome == Hidden && e.Lost == nil:
		return false
	}
	state := o.options.State()
	return slices.ContainsFunc(o.doubts, func(d *doubt) bool {
		return d.covers("", e.Key) && !doubtPassed(d, state) && (d.revision == 0 || e.Revision <= d.revision)
	})
}

// changeDoubtsLocked puts what change makes of each doubt in its place, nothing if that is nil. It makes a
// new slice, because the one of before is read.
func (o *Overlay[V]) changeDoubtsLocked(change func(*doubt) *doubt) {
	var changed []*doubt
	for _, d := range o.doubts {
		if d = change(d); d != nil {
			changed = append(changed, d)
		}
	}
	o.doubts = changed
}

// answeredDoubtsLocked notes that a question was answered at a revision. It was for key or, if that is
// empty, for all keys with prefix. Of what was noted after the question it says nothing, but it is enough for reads of
// before.
func (o *Overlay[V]) answeredDoubtsLocked(q question[V], prefix, key string, revision uint64) {
	of := q.set.number
	o.changeDoubtsLocked(func(d *doubt) *doubt {
		if !d.covers(prefix, key) {
			return d
		}
		next := atRevision(d, q.before, revision)
		listed := newListing(prefix, q.before, revision, next.history, of)
		if d.number > of {
			next.revision, next.history = d.revision, d.history
		}
		if d.asked(prefix, key) >= of {
			return next
		}
		if key == "" {
			next.listed = append(slices.DeleteFunc(slices.Clone(d.listed), func(l listing) bool { return l.prefix == prefix }), listed)
			return next
		}
		next.keys = slices.DeleteFunc(slices.Clone(d.keys), func(k askedKey) bool { return k.key == key })
		if len(next.keys) < askEach { // otherwise there are lists from now on
			next.keys = append(next.keys, askedKey{key, of})
		}
		return next
	})
}

// atRevision returns a doubt of which the server has said that it was written when the server was at a
// revision; before is a state of before the question.
func atRevision[V any](d *doubt, before *watchcache.Snapshot[V], revision uint64) *doubt {
	next := *d
	if next.revision = max(d.revision, revision); revision < before.Revision() { // it was restored from a backup
		next.revision, next.history = revision, before.Restored()+1
	}
	return &next
}

// sweepDoubtsLocked drops the doubts that the state has passed with the lists that have answered them, and those whose deadline has passed. It
// reports whether the server must be asked how far it is.
func (o *Overlay[V]) sweepDoubtsLocked(state *watchcache.Snapshot[V], now time.Time) (due bool) {
	o.changeDoubtsLocked(func(d *doubt) *doubt {
		age := now.Sub(d.noted)
		switch {
		case doubtPassed(d, state) && !slices.ContainsFunc(d.listed, func(l listing) bool { return !reached(l, state) }):
			return nil // a list may be newer than the write
		case age >= deadline:
			o.options.Ended(Ending{Key: d.prefix, Outcome: Unknown, Revision: d.revision, Reached: state.Revision()})
			return nil
		case d.revision == 0 && age >= proveAfter:
			due = true
		}
		return d
	})
	return due
}
