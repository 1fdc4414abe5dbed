// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Phase is where an informer is in its life, for people who look at it.
type Phase string

const (
	// Waiting informers belong to a cache that is not started.
	Waiting Phase = "not started"
	// Synced informers have synced, and follow the API server.
	Synced Phase = "synced"
	// Lists informers receive their first list, and nothing has failed.
	Lists Phase = "listing"
	// Dormant informers are of an optional kind that is not served.
	Dormant Phase = "dormant"
	// Silent informers have synced, and the API server has told them nothing for longer than a watch may
	// be silent: it has nothing to tell, or does not come through.
	Silent Phase = "silent"
	// Interrupted informers have synced, and cannot follow now. Reads show what there was.
	Interrupted Phase = "interrupted"
	// Incomplete informers follow, and lack objects because a function of the user failed for them.
	Incomplete Phase = "incomplete"
	// Stalled informers are silent for so long that the check of readiness fails.
	Stalled Phase = "stalled"
	// NotSynced informers have not synced, or cannot follow until somebody does something.
	NotSynced Phase = "not synced"
)

// Label returns the phase as labels of metrics have it: one word.
func (p Phase) Label() string { return strings.ReplaceAll(string(p), " ", "_") }

// Phases are all phases, from the worst to the best.
var Phases = []Phase{NotSynced, Stalled, Incomplete, Interrupted, Silent, Dormant, Lists, Waiting, Synced}

// Phase returns where the informer is, and why if it is not where it should be: a *NotSyncedError, a
// *StaleError, or what fails now. It asks the API server nothing.
func (e *MapEntry) Phase() (Phase, error) {
	if e.optional().is(dormant) {
		return Dormant, e.optional().why()
	}
	reason := e.NotSynced()
	switch {
	case reason == nil:
		return e.following()
	case !e.synced() && reason.Err == nil:
		return Lists, nil
	case reason.Objects > 0:
		return Incomplete, reason
	}
	return NotSynced, reason
}

// following is Phase for an informer that has synced and lacks nothing that is known.
func (e *MapEntry) following() (Phase, error) {
	if err := e.silentFor(stalledAfter); err != nil {
		return Stalled, err
	}
	if failed := e.failures.Last(); failed != nil {
		return Interrupted, failed.Err
	}
	if e.waiting.idleTimeout > 0 {
		if age, known := e.Age(); known && age > e.waiting.idleTimeout {
			return Silent, &StaleError{Key: e.key, Namespace: e.current().requested, Age: age, MaxAge: e.waiting.idleTimeout, unread: true}
		}
	}
	return Synced, nil
}

// Key returns the kind and the representation.
func (e *MapEntry) Key() Key { return e.key }

// Namespace returns the namespace to which the informer is restricted; empty for all.
func (e *MapEntry) Namespace() string { return e.scope.namespace }

// Resource returns the resource that is listed and watched. Of an optional kind that has not been served yet
// it is a guess.
func (e *MapEntry) Resource() schema.GroupVersionResource { return e.current().mapping.Resource }

// Policy returns what happens if the kind cannot be cached.
func (e *MapEntry) Policy() FailurePolicy {
	if e.waiting.policy == "" {
		return WaitOnFailure
	}
	return e.waiting.policy
}

// Len returns the number of objects.
func (e *MapEntry) Len() int {
	if own := e.ours(); own != nil {
		return own.Engine().Len()
	}
	return len(e.Informer.GetStore().ListKeys())
}

// ResourceVersion returns the version up to which the informer has seen everything; empty before the
// first list.
func (e *MapEntry) ResourceVersion() string {
	own := e.ours()
	if own == nil {
		return e.Informer.LastSyncResourceVersion()
	}
	if revision := own.Engine().Revision(); revision > 0 {
		return strconv.FormatUint(revision, 10)
	}
	return ""
}
