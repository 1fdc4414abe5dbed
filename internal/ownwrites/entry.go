// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Outcome says what is known of an object after a write.
type Outcome int

const (
	// Shown says that at Revision the object is Value.
	Shown Outcome = iota
	// Hidden says that at Revision the cache does not hold an object: there is none, or it is
	// outside the scope.
	Hidden
	// Gone says that the object with UID was deleted, at a revision that the server does not tell.
	// At Revision it was still there; 0 stands for an unknown revision.
	Gone
	// Changed says that the object was written at Revision, and that its content is not known.
	Changed
	// Leaving says that the object with UID, which was there at Revision, was asked to go: it may
	// be gone, or wait for its finalizers or its period of grace. It may have changed in between.
	Leaving
	// Unknown says that a write may have happened.
	Unknown
)

// String returns the word that logs use.
func (o Outcome) String() string {
	return [...]string{"shown", "hidden", "gone", "changed", "leaving", "unknown"}[o]
}

// Entry is what is known of the object under one key. It does not change once it is noted.
type Entry[V any] struct {
	Key      string
	Outcome  Outcome
	Revision uint64
	// UID is that of the object, if it is known. Gone and Leaving need it.
	UID types.UID
	// Value is the object of an entry that is Shown.
	Value V
	// Collection says of Gone that a server has listed the object with others at Revision and deleted
	// it afterwards. If it changed in between, it may have got a finalizer, and be there.
	Collection bool
	// Lost says of Hidden that the cache cannot hold the object of Revision, and why. The state keeps the
	// object of before, if it has one, until there is a newer one that it can hold. One that is Unknown has
	// Revision, UID and Lost of an entry that it took the place of, if that has a Revision which the cache may be
	// unable to hold.
	Lost error

	was  *before[V] // of one that is open or Lost: what reads have shown until then, nil for nothing but the state
	size size
	full bool // of Changed: there was no room for the object
	proving
	noting
}

// proving says how it is known that a state is past an entry, where the revision does not.
type proving struct {
	proof  uint64 // if it is unproven otherwise: a revision at which the server had the write; 0 if none is known
	unheld bool   // of Gone: the cache could not hold the object of Revision, so that a state does not have it says nothing
	leaves bool   // of Unknown: the object was asked to go, and is newer than Revision, unless it was leaving then already
}

// before is an object that reads have shown, in the place of which there is one of unknown content, or one that the cache
// cannot hold. It does not change.
type before[V any] struct {
	item    watchcache.Item[V]
	dropped bool // there was no room: item has the key and the revision alone
}

// noting says when an entry was noted.
type noting struct {
	number  uint64 // in the order in which entries were noted
	of      uint64 // the number of the newest entry that it may be newer than: of an answer, of before the question
	noted   time.Time
	history int    // how often the source had been restored
	until   uint64 // it stays until the state has reached this revision, also if it was passed; see listing
	seen    uint64 // of one that is open: the revision of an answer that reads may have shown in its place; see outlastedLocked
}

// open reports whether the content is not known, or may turn out not to be.
func (e *Entry[V]) open() bool {
	return e.Outcome > Gone || e.Outcome == Gone && (e.Collection || e.Revision == 0)
}

// unproven reports whether nothing that the watch brings says that it is past the write.
func (e *Entry[V]) unproven() bool {
	return e.proof == 0 && (e.Outcome == Unknown || e.Outcome == Leaving || e.Outcome == Gone && (e.Revision == 0 || e.unheld))
}

// waits reports whether the content is not known as long as a state has now under the key.
func (e *Entry[V]) waits(now found) bool {
	if e.Outcome == Gone {
		other := e.Revision == 0 && now.there && now.uid != e.UID && !e.passed(now) // which is the newer one is not known
		return other || e.Collection && (now.at < e.seen || now.there && now.uid == e.UID && now.revision > e.Revision)
	}
	return e.Outcome > Gone && !e.passed(now)
}

// found is what a state has under the key of an entry.
type found struct {
	at       uint64 // the revision of the state; 0 if it is of a history before that of the entry
	there    bool   // there is an object
	uid      types.UID
	revision uint64
	leaving  bool // of one that was asked to go: the object has a deletionTimestamp
}

// in returns what a state has under the key of e.
func (e *Entry[V]) in(state *watchcache.Snapshot[V], o *Options[V]) (watchcache.Item[V], found) {
	item, there := state.Get(e.Key)
	now := found{there: there}
	if there {
		now.uid, now.revision = o.UID(item.Value), item.Revision
		switch {
		case e.Outcome == Leaving:
			now.leaving = (now.revision > e.Revision || e.proof > 0 && now.revision == e.Revision) && o.Leaving(item.Value)
		case e.leaves:
			now.leaving = now.revision == e.Revision && o.Leaving(item.Value)
		}
	}
	if state.Restored() >= e.history {
		now.at = state.Revision()
	}
	return item, now
}

// passed reports whether a state holds the write of e, or a newer one.
func (e *Entry[V]) passed(now found) bool {
	if e.open() && now.at < e.seen {
		return false
	}
	same := now.there && now.uid == e.UID
	switch e.Outcome {
	case Gone:
		from := e.Revision
		if from == 0 || e.unheld {
			from = e.proof
		}
		return from > 0 && now.at >= from && !same
	case Leaving:
		changed, proven := now.revision > e.Revision, e.proof > 0 && now.at >= e.proof
		settled := changed && now.leaving || proven && (changed || now.leaving) // a change alone may be older than the deletion
		return now.at >= e.Revision && (!same || settled)
	case Unknown:
		return e.proof > 0 && now.at >= e.proof && !e.loses(now) && !e.isAhead(now)
	case Hidden:
		if e.loses(now) {
			return false
		}
	case Shown, Changed:
		if e.isAhead(now) {
			return false // whatever the state's revision is: it is of another history, or of another order
		}
	}
	return now.at > 0 && now.at >= e.Revision
}

// isAhead reports whether a state has an older version of the object of e.
func (e *Entry[V]) isAhead(now found) bool {
	if !now.there || e.UID == "" || now.uid != e.UID || now.revision == 0 {
		return false
	}
	changed := e.leaves && !now.leaving // a deletion does not change what was deleted before
	return now.revision < e.Revision || changed && now.revision == e.Revision
}

// names reports whether e, without the object, may have the revision at which that was written.
func (e *Entry[V]) names() bool { return e.Outcome == Changed || e.Outcome == Unknown }

// loses reports whether a state has the object of before one that the cache cannot hold.
func (e *Entry[V]) loses(now found) bool {
	return e.Lost != nil && now.there && now.revision < e.Revision
}

// keepLost has e, which is Unknown, say what an entry, which may be nil, says of an object that the cache cannot hold,
// or may be unable to hold: then the state keeps the object of before.
func (e *Entry[V]) keepLost(of *Entry[V]) {
	switch {
	case of == nil, of.Revision < e.Revision, of.Revision == e.Revision && e.leaves:
	case of.Outcome == Leaving:
		e.Revision, e.UID, e.leaves = of.Revision, of.UID, true
	case of.Lost != nil, of.names():
		e.Lost, e.Revision, e.UID, e.leaves = of.Lost, of.Revision, of.UID, of.leaves
	}
}

// object returns the object that e keeps, which takes memory, if there is one.
func (e *Entry[V]) object() (value V, kept bool) {
	switch {
	case e.Outcome == Shown:
		return e.Value, true
	case e.was != nil && !e.was.dropped:
		return e.was.item.Value, true
	}
	return value, false
}

// follow has e keep what reads have shown until it was noted, of the entry for its key, which may be nil.
func (e *Entry[V]) follow(last *Entry[V]) {
	switch {
	case last == nil || !e.open() && e.Lost == nil:
	case last.Outcome == Shown:
		e.was = &before[V]{item: last.item()}
	default:
		e.was = last.was
	}
}

// withoutObject returns e for whose object there is no room. An object that is Shown is known to have changed.
func (e *Entry[V]) withoutObject() *Entry[V] {
	mark := *e
	if mark.was = (&before[V]{item: watchcache.Item[V]{Key: e.Key, Revision: e.Revision}, dropped: true}); e.Outcome == Shown {
		mark.Outcome, mark.Value, mark.full = Changed, *new(V), true
	} else {
		mark.was.item.Revision = e.was.item.Revision
	}
	return &mark
}

// hides reports whether an entry that was not passed hides the object of the state.
func (e *Entry[V]) hides(now found) bool {
	switch e.Outcome {
	case Hidden:
		return true
	case Gone: // of unknown revision it knows only its own object
		return now.uid == e.UID || now.at < e.Revision
	}
	return false
}

// after returns what is known when next is noted and last is there already. It returns nil if next
// adds nothing. Responses come in any order, so next may be the older one.
func (o *Overlay[V]) after(last, next *Entry[V]) *Entry[V] {
	same := last.UID == next.UID
	switch {
	case last.Outcome == Unknown:
		// It takes an answer of the server, and to a question that is asked from now on: the answer to
		// one that is under way may be older than next.
		return &Entry[V]{Key: next.Key, Outcome: Unknown}
	case next.Outcome == Unknown:
		return next
	case same && last.Collection && next.Outcome != Gone && next.Revision > last.Revision,
		same && next.Collection && last.Outcome != Gone && next.Revision < last.Revision:
		return &Entry[V]{Key: next.Key, Outcome: Unknown} // it has changed beside the deletion
	case same && next.Collection && last.Outcome == Gone && !last.Collection:
		return nil
	case next.Outcome == Gone && same:
		next.Revision, next.unheld = max(next.Revision, last.Revision), (last.unheld || last.Lost != nil) && !o.holds(next)
		return next
	case next.Outcome == Gone && next.Revision == 0, last.Outcome == Gone && last.Revision == 0 && !same:
		return &Entry[V]{Key: next.Key, Outcome: Unknown} // which of two objects is newer cannot be known
	case next.Outcome == Leaving && same && last.Outcome != Gone:
		next.Revision = max(next.Revision, last.Revision) // the server answers with the object as it was
		return next
	case last.Outcome == Leaving && same && next.Revision > last.Revision && next.Outcome == Shown && o.options.Leaving(next.Value):
		return next
	case last.Outcome == Leaving && same && next.Revision > last.Revision && (next.Outcome == Shown || next.Outcome == Changed):
		return &Entry[V]{Key: next.Key, Outcome: Leaving, Revision: next.Revision, UID: next.UID} // it may be older than the deletion
	case last.Outcome == Gone && same, next.Revision <= last.Revision:
		return nil
	}
	return next
}

// Answer is what the server says of one key.
type Answer[V any] struct {
	// Found reports whether there is an object that the cache holds.
	Found bool
	// Item is the object if there is one, and its Key alone if there is none.
	Item watchcache.Item[V]
	// Lost says that there is an object which the cache should hold, and why it cannot. Then nothing
	// is Found, Item has its Key and its Revision, and UID is that of the object.
	Lost error
	UID  types.UID
	// Revision is that of the answer: the server has written nothing before it that is not in there.
	Revision uint64
}
