// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/store"
)

// NotFreshError is the error of a read that waited in vain for a resource version. Match a pointer
// to it with errors.As. As an API error it is a Timeout, with the cause ResourceVersionTooLarge, as
// an API server answers. Nothing was read; the caller may try again.
type NotFreshError struct {
	// GVK is the kind that was read.
	GVK schema.GroupVersionKind
	// Scope says which objects of the kind the informer holds, in words; empty means all.
	Scope string
	// Wanted is the resource version that the read needs, and Reached the version that the watch is
	// at.
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
	late, unanswered := (*store.LateError)(nil), (*pending.UnansweredError)(nil)
	switch {
	case errors.As(err, &late):
		return &NotFreshError{
			GVK: r.gvk, Scope: r.restriction, Wanted: store.Version(late.Wanted), Reached: store.Version(late.Reached), Cause: late.Cause,
		}
	case errors.As(err, &unanswered):
		return &UnansweredError{GVK: r.gvk, Scope: r.restriction, Cause: unanswered.Cause}
	}
	return err
}

// getFreshness returns what the options of a Get ask for. Their Raw has the meaning that it has for
// an API server: not older than its ResourceVersion.
func getFreshness(o *client.GetOptions) (store.Freshness, error) {
	if o.Raw == nil || o.Raw.ResourceVersion == "" {
		return store.Freshness{Watched: o.DisableReadYourWritesConsistency}, nil
	}
	revision, err := wanted(o.Raw.ResourceVersion)
	return store.Freshness{Revision: revision, Watched: o.DisableReadYourWritesConsistency}, err
}

// listFreshness returns what the options of a List ask for.
func listFreshness(o *client.ListOptions) (store.Freshness, error) {
	if o.Raw == nil || o.Raw.ResourceVersion == "" || o.Raw.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		return store.Freshness{Watched: o.DisableReadYourWritesConsistency}, nil
	}
	if o.Continue != "" {
		return store.Freshness{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue: the pages of a list are of one state")
	}
	revision, err := wanted(o.Raw.ResourceVersion)
	return store.Freshness{Revision: revision, Watched: o.DisableReadYourWritesConsistency}, err
}

func wanted(resourceVersion string) (uint64, error) {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("resource version %q is no number: a cache cannot say whether it is older", resourceVersion))
	}
	return revision, nil
}
