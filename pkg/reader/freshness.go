// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
)

// NotFreshError is the error of a read that waited in vain for a resource version. Match a pointer
// to it with errors.As. As an API error it is a Timeout, with the cause ResourceVersionTooLarge, as
// an API server answers. Nothing was read; the caller may try again.
type NotFreshError struct {
	// GVK is the kind that was read.
	GVK schema.GroupVersionKind
	// Scope says which objects of the kind the informer holds, in words; empty means all.
	Scope string
	// Wanted is the resource version that the read needs, and Reached the one that the watch is at.
	Wanted, Reached string
	// Cause says why the wait ended.
	Cause error
}

var _ apierrors.APIStatus = (*NotFreshError)(nil)

// Error implements error.
func (e *NotFreshError) Error() string {
	scope := ""
	if e.Scope != "" {
		scope = " of " + e.Scope
	}
	return fmt.Sprintf("the cache of %s%s has reached resource version %s, and the read needs %s (%v): try again, or read what is there without NotOlderThan",
		e.GVK.Kind, scope, e.Reached, e.Wanted, e.Cause)
}

// Unwrap returns the cause.
func (e *NotFreshError) Unwrap() error { return e.Cause }

// Status implements APIStatus.
func (e *NotFreshError) Status() metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: e.Error(),
		Details: &metav1.StatusDetails{
			Group: e.GVK.Group, Kind: e.GVK.Kind, RetryAfterSeconds: 1,
			Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}},
		},
	}
}

// UnansweredError is the error of a read after a write of the program whose outcome is not known, as after a
// time-out: the API server was asked for it, and has not said. Match a pointer to it with errors.As. As an
// API error it is a ServiceUnavailable, whatever the answer was: that nothing was found or that a page has
// expired is said of the question, and not of what the caller reads. Nothing was read; the caller may try
// again at once, since there is a pause between two questions to a server that does not answer.
type UnansweredError struct {
	// GVK is the kind that was read.
	GVK schema.GroupVersionKind
	// Scope says which objects of the kind the informer holds, in words; empty means all.
	Scope string
	// Cause is the error of the question, or why the caller did not wait for its end.
	Cause error
}

var _ apierrors.APIStatus = (*UnansweredError)(nil)

// Error implements error.
func (e *UnansweredError) Error() string {
	scope := ""
	if e.Scope != "" {
		scope = " of " + e.Scope
	}
	return fmt.Sprintf("what became of a write is not known, and the API server does not say it of %s%s (%v): try again, or read with AsCached what the watch has shown",
		e.GVK.Kind, scope, e.Cause)
}

// Unwrap returns the cause.
func (e *UnansweredError) Unwrap() error { return e.Cause }

// Status implements APIStatus.
func (e *UnansweredError) Status() metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: e.Error(),
		Details: &metav1.StatusDetails{Group: e.GVK.Group, Kind: e.GVK.Kind, RetryAfterSeconds: 1},
	}
}

// explain returns err with what the reader knows of the wait that it is of.
func (r *CacheReader) explain(err error) error {
	if err == nil {
		return nil // before errors.As makes the variables allocate
	}
	late, unanswered := (*NotFreshError)(nil), (*pending.UnansweredError)(nil)
	switch {
	case errors.As(err, &late):
		e := *late
		e.GVK, e.Scope = r.gvk, r.restriction
		return &e
	case errors.As(err, &unanswered):
		return &UnansweredError{GVK: r.gvk, Scope: r.restriction, Cause: unanswered.Cause}
	}
	return err
}

// getFreshness returns what the options of a Get ask for. Their Raw has the meaning that it has for
// an API server: not older than its ResourceVersion.
func getFreshness(o *client.GetOptions) (freshness, error) {
	if o.Raw == nil || o.Raw.ResourceVersion == "" {
		return freshness{watched: o.DisableReadYourWritesConsistency}, nil
	}
	revision, err := wanted(o.Raw.ResourceVersion)
	return freshness{revision: revision, watched: o.DisableReadYourWritesConsistency}, err
}

// listFreshness returns what the options of a List ask for.
func listFreshness(o *client.ListOptions) (freshness, error) {
	if o.Raw == nil || o.Raw.ResourceVersion == "" || o.Raw.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		return freshness{watched: o.DisableReadYourWritesConsistency}, nil
	}
	if o.Continue != "" {
		return freshness{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue: the pages of a list are of one state")
	}
	revision, err := wanted(o.Raw.ResourceVersion)
	return freshness{revision: revision, watched: o.DisableReadYourWritesConsistency}, err
}

func wanted(resourceVersion string) (uint64, error) {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("resource version %q is no number: a cache cannot say whether it is older", resourceVersion))
	}
	return revision, nil
}

// waitFor bounds the wait for a revision. Watches that work are seconds behind at most, unless nothing is written: then
// a bookmark comes each minute, which is too long to wait for.
const waitFor = 10 * time.Second

var errLate = fmt.Errorf("it did not come within %v", waitFor)

// reach waits until the state is as new as a read needs it. The error is a *NotFreshError.
func (s *EngineStore) reach(ctx context.Context, at freshness) error {
	if at.revision == 0 || s.engine.Snapshot().Revision() >= at.revision {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, waitFor, errLate)
	defer cancel()
	if err := s.engine.WaitUntilFresh(ctx, at.revision); err != nil {
		return &NotFreshError{Wanted: version(at.revision), Reached: version(s.engine.Snapshot().Revision()), Cause: err}
	}
	return nil
}

// getOver is get for a key that was written, or with a resource version to wait for. An object that
// is new enough itself needs no wait for the watch.
func (s *EngineStore) getOver(ctx context.Context, key string, at freshness) (object.Object, bool, error) {
	for {
		item, ok, revision, err := s.findOver(ctx, key, at)
		if err != nil {
			return object.Object{}, false, err
		}
		if revision >= at.revision || ok && item.Revision >= at.revision {
			return item.Value, ok, nil
		}
		if err := s.reach(ctx, at); err != nil {
			return object.Object{}, false, err
		}
	}
}

// findOver returns the object under a key as of now, and the revision of the state.
func (s *EngineStore) findOver(ctx context.Context, key string, at freshness) (found item, ok bool, revision uint64, err error) {
	if at.watched || s.own.Empty() { // before the state, see package pending
		state := s.engine.Snapshot()
		found, ok = state.Get(key)
		return found, ok, state.Revision(), nil
	}
	view, err := s.own.Read(ctx, pending.Target{Key: key})
	if err == nil {
		found, ok, err = view.Find(key)
		revision = view.Base().Revision()
	}
	return found, ok, revision, err
}

// Tells reports whether a write of the program that the watch has not shown says what is under a key.
func (r *CacheReader) Tells(key client.ObjectKey) bool {
	s, ok := r.store.(*EngineStore)
	if !ok {
		return false
	}
	_, tells := s.own.At(object.Key(key.Namespace, key.Name))
	return tells
}

// reached refuses a read that needs a newer state than the store of an informer of the user's has:
// such an informer does not tell when it gets one.
func (s *IndexerStore) reached(at freshness) error {
	if at.revision == 0 {
		return nil
	}
	now, err := strconv.ParseUint(s.indexer.LastStoreSyncResourceVersion(), 10, 64)
	if err == nil && now >= at.revision {
		return nil
	}
	return &NotFreshError{Wanted: version(at.revision), Reached: version(now), Cause: errors.New("the informers of NewInformer are not waited for")}
}
