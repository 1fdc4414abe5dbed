// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
)

// maxOwn is how many own writes, and how many events, are kept for a request and a reference. Without one a request is woken.
const maxOwn = 100

// IgnoreOwnWrites has no request woken by what its own successful reconciles write. A write is own if the reconcile makes it with its
// context and a client of package github.com/tarn-dev/tarn/pkg/client on the same cache, and if the server proves that nobody else has
// changed the object since the request has read it: it is a creation, or an update, a patch or an apply with the resourceVersion that the
// request has read or written. Any other write wakes the request, as a deletion does. Other requests that refer to the object are woken.
// IgnoreOwnWrites is called before the source starts.
func (r *References[R]) IgnoreOwnWrites() { r.noter, _ = r.of.of.(note.Noter) }

// own is what a request has written of a reference. The lock of the references guards it.
type own struct {
	holding bool       // the reconcile has written, and has not ended
	held    []heldBack // events since it has written, the oldest first
	written []written  // of which no event has told, the oldest first
}

// written is the version of an object that a request knows without reading it, since it has made it of a version that it knows.
type written struct {
	uid     types.UID
	version string
}

// heldBack is an event that waits for the end of a reconcile, which knows all its writes then. Until then a wake-up has no effect.
type heldBack struct {
	event  event
	object client.ObjectKey
	change string
	at     time.Time
}

// ownWrites follows the writes of a reconcile.
type ownWrites[R comparable] struct {
	of *References[R]
	t  *tracker[R]
}

// follow returns the context of a reconcile whose writes are followed.
func (r *References[R]) follow(ctx context.Context, t *tracker[R]) context.Context {
	if r.noter == nil {
		return ctx
	}
	return note.Follow(ctx, r.noter, ownWrites[R]{r, t})
}

// WillWrite implements note.Follower.
func (w ownWrites[R]) WillWrite() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.t.settled {
		return
	}
	w.t.writes = true
	for ref := range w.of.requests[w.t.request] {
		ref.users[w.t.request].own.holding = true
	}
}

// NoteWrite implements note.Noter.
func (w ownWrites[R]) NoteWrite(of note.Write) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.t.settled {
		return
	}
	for ref := range w.of.requests[w.t.request] {
		ref.users[w.t.request].wrote(ref.key, ref.scope, of)
	}
}

// wrote notes a write in a scope, if it has replaced what the request knows. Of the objects of a list it knows those that are not newer.
func (u *use) wrote(key refKey, scope extent, w note.Write) {
	version := strconv.FormatUint(w.Revision, 10)
	if key.GroupKind() != w.Kind.GroupKind() || !scope.includes(w.Key) || !scope.matches(w.Metadata) || version == w.Replaced {
		return
	}
	order, err := resourceversion.CompareResourceVersion(w.Replaced, u.version)
	switch {
	case w.Replaced == "":
		return
	case w.Replaced == note.Nothing && (key.name == "" && u.version != "" || u.absent):
	case w.Replaced == u.version, key.name == "" && err == nil && order <= 0, u.own.has(w.Replaced):
	default:
		return
	}
	u.absent = false
	if u.own.written = append(u.own.written, written{w.UID, version}); len(u.own.written) > maxOwn {
		u.own.written = slices.Delete(u.own.written, 0, 1)
	}
}

// has reports whether a request has written a version.
func (o *own) has(version string) bool {
	return o != nil && slices.ContainsFunc(o.written, func(w written) bool { return w.version == version })
}

// ignores reports whether an event does not wake the request now: it is that of an own write, or it may be and waits.
func (u *use) ignores(key refKey, h heldBack) bool {
	switch {
	case u.own == nil || !u.read:
		return false
	case !u.own.holding:
		return u.isOwn(key, h.event)
	case len(u.own.held) == maxOwn:
		return false
	}
	u.own.held = append(u.own.held, h)
	return true
}

// isOwn reports whether an event is that of an own write, which the request has seen then.
func (u *use) isOwn(key refKey, e event) bool {
	at := slices.Index(u.own.written, written{e.uid, e.version})
	if at < 0 || e.deleted || e.uid == "" {
		return false
	}
	u.own.written = slices.Delete(u.own.written, at, at+1)
	if key.name != "" {
		u.version = e.version
	}
	return true
}

// settle decides about the events that have waited for the end of a reconcile. All wake the request if it has failed.
func (r *References[R]) settle(t *tracker[R], succeeded bool) {
	if r.noter == nil {
		return
	}
	r.mu.Lock()
	t.writes, t.settled = false, true // a read of after that holds nothing back
	woken := map[R]struct{}{}
	for ref := range r.requests[t.request] {
		u := ref.users[t.request]
		held := u.own.held
		u.own.holding, u.own.held = false, nil
		if !succeeded {
			u.own.written = nil
		}
		for _, h := range held {
			if !(succeeded && u.isOwn(ref.key, h.event)) && u.news(ref.key, h.event) {
				woken[t.request] = struct{}{}
				r.noteLocked(t.request, wakeUp[R]{ref: ref, object: h.object, change: h.change, at: h.at})
			}
		}
	}
	r.mu.Unlock()
	r.enqueue(woken)
}

// hasAfter reports whether a request has written a version that is newer than another, and of which no event has told yet.
func (o *own) hasAfter(version string) bool {
	return o != nil && slices.ContainsFunc(o.written, func(w written) bool { return isAfter(w.version, version) })
}

func isAfter(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order > 0
}

// forgetOwn forgets the own writes up to a version that no event has told: none will. If the version is empty the server was restored, and
// counts its versions anew: all are forgotten. The caller holds the lock of the references.
func (l *listener[R]) forgetOwn(upTo string) {
	if l.of.noter == nil {
		return
	}
	for ref := range l.references() {
		for _, u := range ref.users {
			u.own.written = slices.DeleteFunc(u.own.written, func(w written) bool { return !isAfter(w.version, upTo) })
		}
	}
}
