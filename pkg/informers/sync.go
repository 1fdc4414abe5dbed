// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
)

// FailurePolicy says what happens if a kind cannot be cached. It is the policy of one kind: those of other kinds do not matter to it.
type FailurePolicy string

const (
	// WaitOnFailure lets everybody wait: reads and GetInformer until their context ends, WaitForCacheSync too. There is one exception: if
	// nobody has asked for the kind but with IndexField, WaitForCacheSync does not wait for a kind whose cause does not mend itself, see
	// [Cause.Mends]. An object that the transform failed for is missing in lists.
	WaitOnFailure FailurePolicy = "Wait"
	// FailFast ends the cache with a *NotSyncedError when the kind has a cause that does not mend
	// itself. Start returns the error. Reads and GetInformer return it at once.
	FailFast FailurePolicy = "FailFast"
	// Isolate lets everybody else go on. WaitForCacheSync does not wait for the kind once an attempt to list or watch it has failed. Reads
	// then return a *NotSyncedError at once, and GetInformer the informer as it is. Event handlers of the kind count as synced. When the
	// kind can be cached, reads find its objects, and handlers are told of them.
	Isolate FailurePolicy = "Isolate"
)

// Valid reports whether p is one of the policies, or open.
func (p FailurePolicy) Valid() bool {
	switch p {
	case "", WaitOnFailure, FailFast, Isolate:
		return true
	}
	return false
}

// synced reports whether the informer holds a complete list of now.
func (e *MapEntry) synced() bool {
	return e.Informer.HasSynced() && (e.optional() == nil || e.optional().is(present))
}

// base returns the informer, or that below a view, if it is one of package internal/informer.
func (e *MapEntry) base() *informer.Informer {
	switch i := e.Informer.(type) {
	case *informer.Informer:
		return i
	case *informer.View:
		return i.Base()
	}
	return nil
}

// NotSynced returns why the informer does not hold what the API server has, or nil if it does as far
// as is known. After the first list is complete, it is nil while the watch is interrupted, unless the
// API server refuses to watch the kind at all. It is nil of an optional kind that is not served.
func (e *MapEntry) NotSynced() *NotSyncedError {
	if e.optional().is(dormant) {
		return nil
	}
	if !e.synced() {
		return e.why()
	}
	if decodeError := e.failures.Last(); decodeError != nil && e.failures.DecodeFailed() {
		return e.why()
	}
	if reason := e.cannotBeWatched(); reason != nil {
		return reason
	}
	return e.incomplete()
}

// NotReady returns why the informer has not synced, or nil. A kind that is isolated is as ready as it gets.
func (e *MapEntry) NotReady() *NotSyncedError {
	if e.synced() || e.waiting.policy == Isolate || e.optional().is(dormant) {
		return nil
	}
	return e.why()
}

// why returns what keeps the informer from listing or watching.
func (e *MapEntry) why() *NotSyncedError {
	reason := &NotSyncedError{Key: e.key, Namespace: e.scope.requested(), Resource: e.scope.resource(), Cause: Listing}
	if failed := e.failures.Last(); failed != nil {
		reason.Cause, reason.Object = causeAndObjectOf(failed.Err)
		reason.Since, reason.Attempts, reason.Err = failed.Since, failed.Attempts, failed.Err
	}
	return reason
}

// incomplete returns which objects the informer or an index lacks because a function of the user failed for them, or nil.
func (e *MapEntry) incomplete() *NotSyncedError {
	base := e.base()
	if base == nil {
		return nil
	}
	if lost, err := base.Lost(); lost > 0 {
		return e.lacks(lost, TransformFailed, err.Object, err)
	}
	if unindexed, err := base.Unindexed(); unindexed > 0 {
		return e.lacks(unindexed, IndexFailed, err.Object, err)
	}
	return nil
}

func (e *MapEntry) lacks(number int, because Cause, object client.ObjectKey, err error) *NotSyncedError {
	return &NotSyncedError{
		Key: e.key, Namespace: e.scope.requested(), Resource: e.scope.resource(),
		Cause: because, Object: object, Objects: number, Err: err,
	}
}

// explain returns the error of a Get that has failed with err: a *NotSyncedError if the API server has sent the object, to the watch or as
// the answer to a write, and its transform failed, or if the cache is to have others by now. Otherwise it returns err. A caller that gets
// NotFound may act on it, so this error must be another one.
func (e *MapEntry) explain(key client.ObjectKey, err error) error {
	base := e.base()
	if base == nil {
		return err
	}
	if e.Reader.ClusterScoped() {
		key.Namespace = ""
	}
	lost := (*informer.TransformError)(nil)
	if !errors.As(err, &lost) {
		if _, tells := e.store.PendingWrite(key); !tells { // otherwise the watch may be late
			lost = base.LostObject(key)
		}
	}
	if lost != nil {
		return e.lacks(1, TransformFailed, lost.Object, lost)
	}
	if apierrors.IsNotFound(err) && e.failures.Behind() && !e.scope.rule.Excludes(key) {
		return e.why()
	}
	return err
}

// WaitForSync waits until the informer has synced. If ctx ends first, the error is a
// *NotSyncedError. It comes at once for a kind that the API server refuses to list. The policy of the
// kind may return one earlier, or although the informer has synced. If the informer is removed first, the error says so.
func (e *MapEntry) WaitForSync(ctx context.Context) error {
	if e.synced() {
		return e.refuse()
	}
	e.waiting.wanted.Store(true)
	return e.wait(ctx, e.refuseFirst)
}

// TryForSync is WaitForSync that also ends, with a *NotSyncedError, as soon as an attempt to list or watch has failed.
func (e *MapEntry) TryForSync(ctx context.Context) error {
	if e.synced() {
		return e.refuse()
	}
	e.waiting.wanted.Store(true)
	return e.wait(ctx, func() error {
		if err := e.refuseFirst(); err != nil {
			return err
		}
		return e.Failing()
	})
}

// Failing returns why the informer has not synced if something is known to fail, or nil.
func (e *MapEntry) Failing() error {
	if e.synced() || e.optional().is(dormant) {
		return nil
	}
	if reason := e.why(); reason.Err != nil {
		return reason
	}
	return nil
}

// refuse returns the error with which the policy answers a read now, or nil.
func (e *MapEntry) refuse() error {
	if e.optional().is(dormant) {
		return e.optional().why()
	}
	return e.refuseByPolicy()
}

// refuseByPolicy is refuse without regard to a kind that is dormant, which is no failure.
func (e *MapEntry) refuseByPolicy() error {
	switch e.waiting.policy {
	case FailFast:
		if reason := e.NotSynced(); reason != nil && !reason.Cause.Mends() && !e.mayBeAbsent(reason) {
			return reason
		}
	case Isolate:
		if reason := e.NotSynced(); reason != nil && reason.Err != nil {
			return reason
		}
	}
	return nil
}

// mayBeAbsent reports whether the reason is that an optional kind is not served, or not quite yet, or not to be watched.
func (e *MapEntry) mayBeAbsent(reason *NotSyncedError) bool {
	return e.optional() != nil && (reason.Cause == NotServed || reason.Cause == NotWatchable)
}

// WaitUntilAnswered waits until reads are answered, here or elsewhere: until TryForSync would neither wait nor return an error, or
// OfOtherScope is true. The error is the cause for which ctx has ended, or says that the informer was removed.
func (e *MapEntry) WaitUntilAnswered(ctx context.Context) error {
	return e.until(ctx, func() bool { return e.OfOtherScope() || e.synced() && e.refuse() == nil })
}

// OfOtherScope reports whether the informer is dormant because its kind, an optional one, is served with another scope than its map holds.
func (e *MapEntry) OfOtherScope() bool { return e.optional() != nil && e.optional().other.Load() }

// until calls done now and after each change of what keeps reads from an answer, and returns nil when done reports true. The error is
// the cause for which ctx has ended, or errRemoved.
func (e *MapEntry) until(ctx context.Context, done func() bool) error {
	for {
		changed, synced := e.failures.Changed(), e.Informer.HasSyncedChecker().Done()
		if e.Informer.HasSynced() {
			synced = nil // an optional kind has been away
		}
		if done() {
			return nil
		}
		select {
		case <-synced: // closed after all that the first list lacks was noted, which is a failure from now on
		case <-changed:
		case <-e.life.ctx.Done():
			return errRemoved
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wait waits until the informer has synced, or until refuse returns an error.
func (e *MapEntry) wait(ctx context.Context, refuse func() error) (err error) {
	over := e.until(ctx, func() bool {
		if e.synced() {
			return true
		}
		err = refuse()
		return err != nil
	})
	switch {
	case over == nil:
		return err
	case e.synced():
		return nil
	case errors.Is(over, errRemoved):
		return fmt.Errorf("waiting for the cache of %s: %w; %w", e, errRemoved, e.why())
	}
	reason := e.why()
	reason.gaveUp = fmt.Sprintf("Timeout: gave up waiting for the cache of %s to sync (%v)", e, over)
	return reason
}

// waitForCacheSync waits as WaitForCacheSync does: until the informer has synced, or until the policy
// lets others go on without it. An optional kind that is dormant, at first or meanwhile, keeps nobody waiting.
func (e *MapEntry) waitForCacheSync(ctx context.Context) (skipped *NotSyncedError, err error) {
	away := false
	err = e.wait(ctx, func() error {
		if away = e.optional().is(dormant); away {
			return e.optional().why()
		}
		reason := e.why()
		switch {
		case e.waiting.policy == Isolate && reason.Err != nil,
			e.waiting.policy == FailFast && !reason.Cause.Mends(),
			e.waiting.policy != Isolate && !e.waiting.wanted.Load() && !reason.Cause.Mends():
			skipped = reason
			return reason
		}
		return nil
	})
	if skipped != nil || away {
		return skipped, nil
	}
	return nil, err
}

// Want notes that somebody listens to the informer, and waits until that is possible if wait is set:
// until it has synced, or until its kind is isolated or dormant.
func (e *MapEntry) Want(ctx context.Context, wait bool) error {
	e.waiting.wanted.Store(true)
	if !wait {
		return nil
	}
	err := e.WaitForSync(ctx)
	if e.optional().is(dormant) || e.isReadsAlone(err) {
		return nil
	}
	return err
}

// isReadsAlone reports whether err, of WaitForSync, is one for reads, and the informer can be listened to: its kind is
// isolated, or was dormant and may have come back since.
func (e *MapEntry) isReadsAlone(err error) bool {
	reason := (*NotSyncedError)(nil)
	if !errors.As(err, &reason) {
		return false
	}
	return e.waiting.policy == Isolate && reason.Err != nil || e.optional() != nil && reason.unmapped()
}

// isolated reports whether the kind of the entry is isolated now.
func (e *MapEntry) isolated() bool {
	return e.waiting.policy == Isolate && !e.synced() && e.failures.Last() != nil
}

// enforcePolicy does what the policy asks for when the informer fails. It returns when the informer ends, or cannot be isolated
// any more because it has synced. It is not needed for WaitOnFailure.
func (e *MapEntry) enforcePolicy(ctx context.Context, fail func(error)) {
	_ = e.until(ctx, func() bool {
		switch e.waiting.policy {
		case FailFast:
			if err := e.refuseByPolicy(); err != nil {
				fail(err)
				return true
			}
		case Isolate:
			if base := e.base(); base != nil && e.isolated() {
				base.ReleaseHandlers()
			}
			return e.optional() == nil && e.synced() // an optional kind may be away later
		}
		return false
	})
}
