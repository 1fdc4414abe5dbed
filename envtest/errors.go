// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"errors"

	"github.com/tarn-dev/tarn/envtest/internal/contents"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

var (
	// ErrNotRunning says that a method that needs a running environment was called before Start or after Stop.
	ErrNotRunning = serving.ErrEnded

	// ErrStartedBefore says that Start or Stop was called before. An environment runs once; New makes another one.
	ErrStartedBefore = errors.New("the environment was started before: make a new one with New")

	// ErrStopped says that Start gave up because Stop was called meanwhile.
	ErrStopped = errors.New("the environment was stopped while it started")

	// ErrForeignSnapshot says that a snapshot is of another environment, or nil. Its objects name the address and the
	// identity of their server, so they are of no use to another one.
	ErrForeignSnapshot = contents.ErrForeign

	// ErrSharedState says that others may share the etcd with the state: it is that of Options.Etcd, or of a server with a
	// command line. It cannot be replaced as a whole.
	ErrSharedState = contents.ErrShared

	// ErrCRDNotEstablished says that the server accepted a CustomResourceDefinition but will not serve it.
	ErrCRDNotEstablished = custom.ErrNotEstablished
)
