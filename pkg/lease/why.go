// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// maxWakeUps is how many wake-ups of a request are kept until it is reconciled: the newest.
const maxWakeUps = 10

// The changes of a [WakeUp].
const (
	added            = "Added"
	modified         = "Modified"
	deleted          = "Deleted"
	changedMeanwhile = "Changed"
	listed           = "Listed"
	answered         = "Answered"
	generic          = "Generic"
	retried          = "Retried"
	requeued         = "Requeued"
)

// WakeUp says why a request is reconciled.
type WakeUp struct {
	// At is when the change was seen, or the request was due.
	At   time.Time
	Kind schema.GroupVersionKind
	// Object is what has changed. It has no Name if Change tells of no single object.
	Object client.ObjectKey
	// Change is Added, Modified or Deleted, as in a watch of the Scope. It is Changed if something has changed while the request read
	// it; Listed if a list may have changed between two states that the informer has seen; and Answered if a read was refused and
	// would be answered now. It is Generic if a Handler was told of that. It is Retried if the last reconcile has failed, and Requeued if
	// the last reconcile has asked for the next one: both have no Kind.
	Change string
	// Scope is what the request has read; empty if no read has woken it.
	Scope Scope
	// Handler is the line of the call of [References.Handler] whose event handler has enqueued the request; empty if none has.
	Handler string
}

// String returns a line for a log.
func (w WakeUp) String() string {
	words := []string{w.Kind.Kind, w.Change, w.Object.Name, "at", w.At.Format(time.RFC3339Nano)}
	if w.Object.Name != "" {
		words[2] = w.Object.String()
	}
	line := strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
	switch scope := w.read(); {
	case scope != "":
		line += ", read as " + scope
	case w.Handler != "":
		line += ", by " + w.Handler
	}
	return line
}

// read names what the request has read; it is empty if no read has woken it.
func (w WakeUp) read() string {
	if w.Handler != "" || w.Kind.Empty() {
		return ""
	}
	scope, _ := w.Scope.check() // it was checked when it was read
	return scope.String()
}

// WakeUps returns why the request is reconciled whose reconcile has the context, the oldest wake-up first, and of more than 10 the
// newest. A change of an object that comes again before the reconcile is there once. A retry of a reconcile that has failed has its
// wake-ups too. There is none if a source without a [References.Handler] has enqueued the request, or a GET is tried again. There may be
// none if the last reconcile had just begun when the request was woken: that one has it. The slice is the caller's own. Each reconcile
// logs its wake-ups at V(1).
func (r *References[R]) WakeUps(ctx context.Context) []WakeUp {
	t, ok := ctx.Value(trackerKey[R]{r}).(*tracker[R])
	if !ok {
		return nil
	}
	return told(t.wakeUps)
}

// told returns wake-ups as users see them.
func told[R comparable](wakeUps []wakeUp[R]) (all []WakeUp) {
	for _, c := range wakeUps {
		w := WakeUp{At: c.at, Kind: c.kind, Object: c.object, Change: c.change, Handler: c.handler}
		if c.ref != nil {
			w.Kind, w.Scope = c.ref.key.GroupVersionKind, Scope{Namespace: c.ref.key.namespace, Name: c.ref.key.name, Labels: c.ref.scope.selector.Label}
		}
		all = append(all, w)
	}
	return all
}

// logWakeUps logs why a request is reconciled.
func (r *References[R]) logWakeUps(ctx context.Context) {
	logger := log.FromContext(ctx).V(1)
	if !logger.Enabled() {
		return
	}
	var lines []string
	for _, w := range r.WakeUps(ctx) {
		lines = append(lines, w.String())
	}
	logger.Info("Woken", "wakeUps", lines)
}

// wakeUp is what a [WakeUp] is made of.
type wakeUp[R comparable] struct {
	ref     *reference[R]           // nil if no read has woken the request
	kind    schema.GroupVersionKind // of the object; empty if the reference has it
	handler string
	object  client.ObjectKey
	change  string
	at      time.Time
}

// noteLocked counts a wake-up of a reference, and notes why a request is enqueued, unless that is noted already. A change of no single
// object that was read, or of one whose change is not known, says nothing more than another one of the same reference. Without a
// reconciler that takes them none are kept.
func (r *References[R]) noteLocked(request R, w wakeUp[R]) {
	vague := false
	if w.ref != nil {
		w.ref.woken.Inc()
		vague = w.change != added && w.change != modified && w.change != deleted
	}
	is := func(other wakeUp[R]) bool {
		other.at = w.at
		return other == w || vague && other.ref == w.ref
	}
	if all := r.wakeUps[request]; !r.ended && r.name != "" && !slices.ContainsFunc(all, is) {
		r.wakeUps[request] = newest(append(all, w))
	}
}

// newest returns as many wake-ups as are kept.
func newest[R comparable](all []wakeUp[R]) []wakeUp[R] { return all[max(0, len(all)-maxWakeUps):] }

// takeWakeUps returns why a request was enqueued since the last call. A time that the last reconcile has set does not count if it is to
// come: the queue forgets it.
func (r *References[R]) takeWakeUps(request R) []wakeUp[R] {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.DeleteFunc(r.wakeUps[request], func(w wakeUp[R]) bool { return w.at.After(now) })
	delete(r.wakeUps, request)
	slices.SortStableFunc(all, func(a, b wakeUp[R]) int { return a.at.Compare(b.at) })
	r.noteNewestLocked(request, all)
	return all
}

// noteNext notes that a reconcile is followed by another, which has the wake-ups of one that has failed too.
func (r *References[R]) noteNext(request R, taken []wakeUp[R], result reconcile.Result, err error) {
	next := wakeUp[R]{change: retried, at: time.Now()}
	switch {
	//lint:ignore SA1019 deprecated, and still done
	case err == nil && result.RequeueAfter <= 0 && !result.Requeue, errors.Is(err, reconcile.TerminalError(nil)):
		return
	case err == nil:
		taken, next.change, next.at = nil, requeued, next.at.Add(result.RequeueAfter)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	all := slices.DeleteFunc(slices.Concat(taken, r.wakeUps[request]), func(w wakeUp[R]) bool { return w.change == next.change })
	r.wakeUps[request] = newest(append(all, next))
}
