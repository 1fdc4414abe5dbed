// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

// StopEtcd stops the etcd of a running environment, as far as the server can tell: until StartEtcd, requests that need it fail, and
// reads that the watch cache answers alone do not; /readyz, /livez and /healthz fail; watches get nothing, and go on afterwards
// without a gap. The objects are kept, and no lease expires. It returns when writes that were under way have ended. Stop and a
// second StopEtcd may follow. It is an error if the etcd is that of Options.Etcd, whose members the caller stops.
func (e *Environment) StopEtcd(ctx context.Context) error {
	own, err := e.ownEtcd(ctx)
	if err != nil {
		return fmt.Errorf("stop the etcd: %w", err)
	}
	own.Pause()
	return nil
}

// StartEtcd starts the etcd again that StopEtcd has stopped. If it runs, nothing happens. The errors are as with StopEtcd.
func (e *Environment) StartEtcd(ctx context.Context) error {
	own, err := e.ownEtcd(ctx)
	if err != nil {
		return fmt.Errorf("start the etcd: %w", err)
	}
	own.Resume()
	return nil
}

// CompactEtcd has the etcd forget what was replaced or deleted before a revision, which is a resourceVersion; zero is the newest one.
// Lists and watches of an older resourceVersion, and lists that go on from an older one, then get a 410, unless the watch cache has
// the events since then: it answers them without the etcd. It is an error if that revision was compacted already or is yet to come, if the etcd is stopped,
// or if it is that of Options.Etcd.
func (e *Environment) CompactEtcd(ctx context.Context, revision int64) error {
	own, err := e.ownEtcd(ctx)
	if err != nil {
		return fmt.Errorf("compact the etcd: %w", err)
	}
	if err := own.CompactTo(ctx, revision); err != nil {
		return fmt.Errorf("compact the etcd at revision %d: %w", revision, err)
	}
	return nil
}

// errOthersEtcd is the error of what can be done to the environment's own etcd alone.
var errOthersEtcd = errors.New("it is the one of Options.Etcd, which the environment does not run: do so to its members")

// ownEtcd returns the etcd of a running environment.
func (e *Environment) ownEtcd(ctx context.Context) (*etcd.Server, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r, err := e.parts()
	if err != nil {
		return nil, err
	}
	own, ok := r.etcd.(*etcd.Server)
	if !ok {
		return nil, errOthersEtcd
	}
	return own, nil
}
