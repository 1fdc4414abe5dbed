// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspected

import "time"

// Controller is a controller whose reconciles refer to what they read.
type Controller struct {
	// Reconciler is the Go type of the reconciler, or the name of its function; empty if there is none.
	Reconciler string `json:"reconciler"`
	// Requests are the newest requests whose reconciles have begun, the newest first.
	Requests []Request `json:"requests"`
}

// Request is a request whose reconcile has begun.
type Request struct {
	Request string    `json:"request"`
	At      time.Time `json:"at"`
	// WakeUps are why it was enqueued, the oldest first. There are none if no reference, no handler that is named, no retry
	// and no timer has enqueued it.
	WakeUps []WakeUp `json:"wakeUps"`
}

// WakeUp is why a request was enqueued: a change of an object, which has no Name if it is not a single one; or a retry or a timer, which
// have no Kind.
type WakeUp struct {
	At        time.Time `json:"at"`
	Group     string    `json:"group"`
	Version   string    `json:"version"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	Change    string    `json:"change"`
	Scope     string    `json:"scope,omitempty"`   // that was read
	Handler   string    `json:"handler,omitempty"` // that has enqueued it
}
