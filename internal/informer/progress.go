// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"strconv"
	"sync/atomic"
	"time"
)

// progress is how far the state of an informer is, and since when. All but sign is of the goroutine
// that lists and watches.
type progress struct {
	counts   *counts
	synced   func()                // called by reflectorStore.clear: an empty state is complete while the informer is dormant
	listing  func(revision uint64) // called each time that a list is about to be in the engine
	listed   func()                // called each time that a list is in the engine
	wentBack func(from, to uint64) // called when the source is at an older version than the state
	abort    func(error)           // ends the list or watch of now, for a cause
	sign     atomic.Int64          // when the source last told anything, in nanoseconds since 1970; zero is never
	newest   uint64                // the version of the state; zero if it is unknown
	back     wayBack               // where a watch was ended because it went back; zero if none was
	before   uint64                // the version that was left last, until the source is there again; then zero
	orderly  bool                  // the versions of the source are ordered, as far as is known
	tried    bool                  // a list was tried since Sleep, or since the source went back
}

// wayBack is the version of a state, and the older one that its source has told then.
type wayBack struct{ from, to uint64 }

// leastVersion returns the version that the next list must have at least: "0" stands for any, and "" for the newest. It is the newest if the
// versions of the source have no order.
func (p *progress) leastVersion() string {
	switch {
	case p.back.from > 0:
		return strconv.FormatUint(p.back.to, 10)
	case !p.tried, p.newest == 0:
		return "0"
	case !p.orderly:
		return ""
	}
	return strconv.FormatUint(p.newest, 10)
}

// tell notes that the source has told something.
func (p *progress) tell() { p.sign.Store(time.Now().UnixNano()) }

// advance notes that the state is of a version now. If that is older than the state, the source was
// restored from a backup: then advance ends the watch, so that a list follows, and returns false.
func (p *progress) advance(version string) bool {
	p.tell()
	n, err := strconv.ParseUint(version, 10, 64)
	switch {
	case err != nil:
		return true // versions are texts
	case n >= p.newest || !p.orderly:
		p.newest = n
		if n >= p.before {
			p.before = 0
		}
		return true
	case p.back.from > 0:
		return false // the watch ends already
	case p.before > 0: // a source is not restored twice before it is where it was: its versions have no order
		p.orderly, p.newest = false, n
		return true
	}
	p.wentBack(p.newest, n)
	p.back, p.before = wayBack{p.newest, n}, p.newest
	p.abort(ErrWentBack)
	return false
}

// replaced notes that a list of a version is about to be the state, and reports whether the source was
// restored from a backup.
func (p *progress) replaced(version string) (restored bool) {
	p.tell()
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		n = 0
	}
	switch {
	case n == 0: // the list has no version to compare with
		p.orderly = p.orderly && p.back.from == 0
	case p.back.from > 0:
		restored = true // how far the source is by now does not matter
	case n < p.newest && p.orderly && p.before > 0:
		p.orderly = false
	case n < p.newest && p.orderly:
		restored, p.before = true, p.newest
		p.wentBack(p.newest, n)
	}
	p.newest, p.back = n, wayBack{}
	return restored
}

// Told returns when the API server last told the informer anything: an event, a bookmark or a list.
// It is zero if it never did.
func (i *Informer) Told() time.Time {
	if sign := i.store.progress.sign.Load(); sign > 0 {
		return time.Unix(0, sign)
	}
	return time.Time{}
}
