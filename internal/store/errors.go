// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
