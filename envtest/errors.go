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

	// ErrForeignSnapshot says that a snapshot is of another environment, or nil. Objects say where their server is reached
	// and who it is, so that they are of no use to another one.
	ErrForeignSnapshot = errors.New("the snapshot is of another environment: take it with Snapshot of this one")

	// ErrSharedState says that the state is in an etcd of which others may have a part: that of Options.Etcd, or of a server
	// with a command line. It cannot be replaced as a whole.
	ErrSharedState = errors.New("the etcd of this server is not its own: delete objects through the server")

	// ErrCRDNotEstablished says that the server accepted a CustomResourceDefinition but will not serve it.
	ErrCRDNotEstablished = errors.New("the CustomResourceDefinition cannot be established")
)
