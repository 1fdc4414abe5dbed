// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// maxHolds bounds the keys that a promise lists. A member with work on more keys yields to no further member.
const maxHolds = 4096

// view is what a member knows of its ring, and what it works on. The lock of the [Ring] guards all of it.
type view struct {
	name     string             // of our Lease
	self     *member            // nil while the Lease is not ours
	joined   bool               // this member takes keys: no work begins earlier
	leaving  bool               // no work begins any more
	deadline time.Time          // when all work stops, if the Lease is not renewed until then
	late     bool               // the deadline has passed, and all holds were cancelled
	cause    error              // why self is nil, or why the last renewal failed
	leases   map[string]*member // all others, by the names of their Leases, with the Leases that nobody has
	members  map[string]*member // those that may work, by id, with ghosts
	yields   map[string]bool    // ids of members to which this one yields; true if the Lease is to say so; nil before the first list
	holds    map[string][]*hold // by key
	version  int                // grows with each change that concerns users or the promise
}

// hold is one piece of work on a key.
type hold struct {
	key    string
	hash   uint64
	cancel context.CancelCauseFunc
	left   time.Time // when the key was seen to be no longer ours; zero while it is
	over   bool      // it was cancelled
}

// enter begins the life of a member that has got its Lease. It knows the others that an earlier life has known: those whose Leases are
// not in the first list are ghosts, of which nobody else may know.
func (v *view) enter(own *coordinationv1.Lease, now, deadline time.Time) {
	*v = view{
		name: v.name, self: newMember(own, now), deadline: deadline, holds: v.holds, version: v.version + 1,
		leases: v.leases, members: v.members,
	}
}

// renewed notes that the Lease was renewed.
func (v *view) renewed(deadline time.Time) {
	if v.deadline, v.cause = deadline, nil; v.late {
		v.late = false
		v.version++
	}
}

// lose ends the life of the member, whose Lease another has, or nobody.
func (v *view) lose(cause error) {
	if v.self != nil {
		v.self, v.joined, v.cause, v.version = nil, false, cause, v.version+1
	}
}

// sync notes the Leases of a list. Of two members, the later one has the other in its first list, because it lists after it has taken its
// Lease.
func (v *view) sync(leases []coordinationv1.Lease, now time.Time) {
	listed := map[string]bool{}
	for i := range leases {
		listed[leases[i].Name] = true
		v.observe(&leases[i], now)
	}
	for name := range v.leases {
		if !listed[name] {
			v.gone(name, now)
		}
	}
	if v.self == nil {
		return
	}
	if !listed[v.name] {
		v.lose(errGone)
		return
	}
	if v.yields == nil {
		v.yields = map[string]bool{}
		v.version++
	}
}

// join lets a member take keys that has listed the others, and has had its Lease since a time. That is a while: of replicas that start
// together, the first one then knows the others. It yields to all members that it knows, so to all of its list.
func (v *view) join(since time.Time) {
	if v.self == nil || v.yields == nil || v.joined || v.self.seen.After(since) {
		return
	}
	for id := range v.members {
		v.yields[id] = false
	}
	v.joined = true
	v.version++
	v.admit()
}

// observe notes a Lease from a list or a watch.
func (v *view) observe(l *coordinationv1.Lease, now time.Time) {
	id := idOf(l)
	if l.Name == v.name {
		if v.self != nil && (l.UID != v.self.lease.UID || id != v.self.id) {
			v.lose(errTaken(l))
		}
		return
	}
	before := v.leases[l.Name]
	if before != nil && before.lease.UID == l.UID && before.id == id {
		if before.set(l, now) && id != "" {
			v.version++
		}
		return
	}
	switch {
	case before == nil || before.id == "":
	case before.lease.UID != l.UID:
		v.haunt(before, now)
	default: // by the member itself, or by another that has found the Lease expired
		v.end(before)
	}
	m := newMember(l, now)
	v.leases[m.name] = m
	if id != "" {
		v.members[id] = m
		v.version++
	}
}

// gone notes that a Lease was deleted.
func (v *view) gone(name string, now time.Time) {
	if v.self != nil && name == v.name {
		v.lose(errGone)
	}
	if m := v.leases[name]; m != nil {
		if delete(v.leases, name); m.id != "" {
			v.haunt(m, now)
		}
	}
}

// haunt makes a member a ghost: it may work until it sees that its Lease is gone, or until its deadline.
func (v *view) haunt(m *member, now time.Time) {
	m.ghost, m.seen = true, now
	v.version++
}

// end takes a member out that has stopped.
func (v *view) end(m *member) {
	delete(v.members, m.id)
	delete(v.yields, m.id)
	v.version++
}

// admit yields to the members that yield to this one, and says so. It says nothing new while there is a ghost: a member that listed after the
// Lease of the ghost had gone does not know of it, and shall not begin its work before that is over. While one to which it yields has not
// joined, it says so only to members that yield to this one: the others would give up keys that have to wait for that one.
func (v *view) admit() {
	if v.self == nil || !v.joined || len(v.holds) > maxHolds {
		return
	}
	waits := false
	for id, m := range v.members {
		if m.ghost {
			return
		}
		_, yields := v.yields[id]
		waits = waits || yields && !m.joined
	}
	for id, m := range v.members {
		if says, yields := v.yields[id]; !says && (yields && !waits || m.yields[v.self.id]) {
			v.yields[id] = true
			v.version++
		}
	}
}

// mayWork is the rule of the ring: a member works on a key if each member that it yields to yields the key to it.
func (v *view) mayWork(hash uint64) bool {
	if !v.takes() {
		return false
	}
	for id := range v.yields {
		m := v.members[id]
		if !m.yields[v.self.id] || len(m.holds) > 0 && m.holds[formatHash(hash)] || !m.leaving && !beats(v.self, m, hash) {
			return false
		}
	}
	return true
}

// takes reports whether this member takes keys.
func (v *view) takes() bool { return v.self != nil && v.joined && !v.leaving }

// inTime reports whether the Lease is surely ours.
func (v *view) inTime(now time.Time) bool { return v.self != nil && now.Before(v.deadline) }

// why returns why the member works on nothing, or begins nothing, and nil if there is no such reason.
func (v *view) why(now time.Time) error {
	switch {
	case v.self == nil:
		return v.cause
	case !v.inTime(now):
		return fmt.Errorf("its Lease could not be renewed in time: %w", cmp.Or(v.cause, errSlow))
	case v.yields == nil:
		return errListing
	case !v.joined:
		return errJoining
	case v.leaving:
		return errLeaving
	}
	return nil
}

// winner returns the member that is to have a key when all have yielded, or nil.
func (v *view) winner(hash uint64) *member {
	var best *member
	if v.takes() {
		best = v.self
	}
	for _, m := range v.members {
		if m.takes() && (best == nil || beats(m, best, hash)) {
			best = m
		}
	}
	return best
}

// promise returns what the Lease is to say.
func (v *view) promise() promise {
	held := map[string]bool{}
	for _, holds := range v.holds {
		if hash := holds[0].hash; !v.mayWork(hash) {
			held[formatHash(hash)] = true
		}
	}
	said := maps.Clone(v.yields)
	maps.DeleteFunc(said, func(_ string, says bool) bool { return !says })
	return promise{v.joined, wordsOf(said), wordsOf(held), v.leaving && len(held) <= maxHolds}
}

// overdue returns the holds whose keys have been leaving for the timeout.
func (v *view) overdue(now time.Time, timeout time.Duration) (due []*hold) {
	for _, holds := range v.holds {
		owned := v.mayWork(holds[0].hash)
		for _, h := range holds {
			switch {
			case owned:
				h.left = time.Time{}
			case h.left.IsZero():
				h.left = now
			case !h.over && now.Sub(h.left) >= timeout:
				due = append(due, h)
			}
		}
	}
	return due
}

// all returns all holds that are not cancelled.
func (v *view) all() (holds []*hold) {
	for _, of := range v.holds {
		for _, h := range of {
			if !h.over {
				holds = append(holds, h)
			}
		}
	}
	return holds
}

// expired ends the ghosts whose time is over. It returns the Leases that have not changed for their time, and when the next one, or
// ghost, is due.
func (v *view) expired(now time.Time, leaseDuration time.Duration) (leases []*coordinationv1.Lease, next time.Time) {
	next = now.Add(leaseDuration)
	due := func(m *member) bool {
		at := m.overAt(leaseDuration)
		if at.After(now) && at.Before(next) {
			next = at
		}
		return !at.After(now)
	}
	for _, m := range v.members {
		if m.ghost && due(m) {
			v.end(m)
		}
	}
	for _, m := range v.leases {
		if due(m) {
			leases = append(leases, m.lease)
		}
	}
	return leases, next
}

// Why a member works on nothing.
var (
	errNotStarted = errors.New("it has no Lease yet")
	errGone       = errors.New("its Lease was deleted")
	errSlow       = errors.New("there is no answer yet")
	errListing    = errors.New("it has not listed the members yet")
	errJoining    = errors.New("it waits for members that start with it")
	errLeaving    = errors.New("it is leaving")
	errLeft       = errors.New("it has left")
)

// errTaken says what a Lease that was ours says now.
func errTaken(l *coordinationv1.Lease) error {
	if idOf(l) == "" {
		return errors.New("its Lease had expired, and another member has released it")
	}
	return fmt.Errorf("its Lease is held by %s", *l.Spec.HolderIdentity)
}
