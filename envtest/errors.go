// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import "errors"

var (
	// ErrNotRunning says that a method that needs a running environment was called before Start or after Stop.
	ErrNotRunning = errors.New("the environment is not running: call Start first, and nothing after Stop")

	// ErrStartedBefore says that Start was called a second time. An environment runs once; New makes another one.
	ErrStartedBefore = errors.New("the environment was started before: make a new one with New")

	// ErrStopped says that Start gave up because Stop was called meanwhile.
	ErrStopped = errors.New("the environment was stopped while it started")

	// ErrCRDNotEstablished says that the server accepted a CustomResourceDefinition but will not serve it.
	ErrCRDNotEstablished = errors.New("the CustomResourceDefinition cannot be established")
)
