// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/inspected"
)

// State implements inspected.Informer.
func (s shown) State() inspected.State {
	phase, err := s.phase()
	return inspected.State{Phase: phase, Err: err, Cause: string(failureOf(err))}
}

// failureOf returns the cause of what an error of a phase says to fail; empty if it says of nothing that it does.
func failureOf(err error) Cause {
	reason, stale := (*NotSyncedError)(nil), (*StaleError)(nil)
	switch {
	case errors.As(err, &reason):
		return reason.Cause
	case errors.As(err, &stale):
		err = stale.Err
	}
	if err == nil {
		return ""
	}
	return causeOf(err)
}

// phase returns where the informer is, and why if it is not where it should be: a *NotSyncedError, a
// *StaleError, or what fails now.
func (e *MapEntry) phase() (inspected.Phase, error) {
	if e.optional().is(dormant) {
		return inspected.Dormant, e.optional().why()
	}
	reason := e.NotSynced()
	switch {
	case reason == nil:
		return e.following()
	case !e.synced() && reason.Err == nil:
		return inspected.Lists, nil
	case reason.Objects > 0:
		return inspected.Incomplete, reason
	}
	return inspected.NotSynced, reason
}

// following is phase for an informer that has synced and lacks nothing that is known.
func (e *MapEntry) following() (inspected.Phase, error) {
	if err := e.silentFor(stalledAfter); err != nil {
		return inspected.Stalled, err
	}
	if failed := e.failures.Last(); failed != nil {
		return inspected.Interrupted, failed.Err
	}
	if e.waiting.idleTimeout > 0 {
		if age, known := e.Age(); known && age > e.waiting.idleTimeout {
			return inspected.Silent, &StaleError{Key: e.key, Namespace: e.scope.requested(), Age: age, MaxAge: e.waiting.idleTimeout, unread: true}
		}
	}
	return inspected.Synced, nil
}

// Key returns the kind and the representation.
func (e *MapEntry) Key() Key { return e.key }

// Namespace returns the namespace to which the informer is restricted; empty for all.
func (e *MapEntry) Namespace() string { return e.scope.namespace }

// Resource returns the resource that is listed and watched. Of an optional kind that has not been served yet
// it is a guess.
func (e *MapEntry) Resource() schema.GroupVersionResource { return e.scope.resource() }

// Policy returns what happens if the kind cannot be cached.
func (e *MapEntry) Policy() FailurePolicy {
	if e.waiting.policy == "" {
		return WaitOnFailure
	}
	return e.waiting.policy
}

// StartedBy returns the call site of the read that has started the informer, as GetAll got it. It is empty if GetInformer, an
// index or a lease has, and of an entry that shows what another one watches.
func (e *MapEntry) StartedBy() string { return e.life.startedBy }

// Len returns the number of objects.
func (e *MapEntry) Len() int {
	if base := e.base(); base != nil {
		return base.Engine().Len()
	}
	return len(e.Informer.GetStore().ListKeys())
}

// ResourceVersion returns the version up to which the informer has seen everything; empty before the
// first list.
func (e *MapEntry) ResourceVersion() string {
	base := e.base()
	if base == nil {
		return e.Informer.LastSyncResourceVersion()
	}
	if revision := base.Engine().Revision(); revision > 0 {
		return strconv.FormatUint(revision, 10)
	}
	return ""
}
