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
// keys already. The doubt ends when the state is as far as the server was after the write. It does not
// change.
type doubt struct {
	prefix   string
	number   uint64 // in the order in which entries were noted
	noted    time.Time
	revision uint64 // at which the server was after the write; zero until it was asked
	history  int    // of the revision

	keys   []string // for which the server was asked, askEach at most
	listed []string // prefixes for which it was asked for a list
}

// covers reports whether key, or any key with prefix if key is empty, is in doubt.
func (d *doubt) covers(prefix, key string) bool {
	if key != "" {
		return strings.HasPrefix(key, d.prefix)
	}
	return strings.HasPrefix(prefix, d.prefix) || strings.HasPrefix(d.prefix, prefix)
}

// asked reports whether the server was asked for key, or for all that is in doubt with prefix if key is
// empty.
func (d *doubt) asked(prefix, key string) bool {
	of := key
	if key == "" {
		of = max(prefix, d.prefix) // one of them is a prefix of the other
	} else if slices.Contains(d.keys, key) {
		return true
	}
	return slices.ContainsFunc(d.listed, func(listed string) bool { return strings.HasPrefix(of, listed) })
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
// server.
func (s *Set[V]) doubted(state *watchcache.Snapshot[V], prefix, key string) *doubt {
	if s == nil {
		return nil
	}
	for _, d := range s.doubts {
		if !d.covers(prefix, key) || d.asked(prefix, key) || doubtPassed(d, state) {
			continue
		}
		if e := s.entries.get(key); key == "" || e == nil || e.of < d.number {
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
// empty, for all keys with prefix.
func (o *Overlay[V]) answeredDoubtsLocked(q question[V], prefix, key string, revision uint64) {
	o.changeDoubtsLocked(func(d *doubt) *doubt {
		if d.number > q.set.number || !d.covers(prefix, key) {
			return d
		}
		next := atRevision(d, q.before, revision)
		switch {
		case d.asked(prefix, key), key != "" && len(d.keys) == askEach: // from now on there are lists
		case key != "":
			next.keys = append(slices.Clip(d.keys), key)
		default:
			next.listed = append(slices.Clip(d.listed), prefix)
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

// sweepDoubtsLocked drops the doubts that the state has passed, and those whose deadline has passed. It
// reports whether the server must be asked how far it is.
func (o *Overlay[V]) sweepDoubtsLocked(state *watchcache.Snapshot[V], now time.Time) (due bool) {
	o.changeDoubtsLocked(func(d *doubt) *doubt {
		age := now.Sub(d.noted)
		switch {
		case doubtPassed(d, state):
			return nil
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
