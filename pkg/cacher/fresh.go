// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/delegator"
)

const (
	// freshWait is for how long a request waits until the cache has the revision that it
	// asks for. It is upstream's.
	freshWait = 3 * time.Second
	// retryFresh is what a client is told when that was not enough.
	retryFresh = 1
)

var errNotFresh = errors.New("the cache is not as new as the request")

// waitUntilFresh waits until the cache has everything up to revision. The error is
// upstream's for a resource version that is too large, also if the time of ctx is up sooner, a
// 429 if the Cacher stops, or the cause for which ctx was cancelled.
func (c *Cacher) waitUntilFresh(ctx context.Context, revision uint64) error {
	if revision == 0 || revision <= c.engine.Revision() {
		return nil
	}
	if delegator.ConsistentReadSupported() { // else the storage tells in its own time
		c.progress.Add()
		defer c.progress.Remove()
	}
	begin := c.config.Clock.Now()
	defer func() { c.metrics.waited(c.config.Clock.Since(begin)) }()
	waiting, cancel := c.timeout(ctx, freshWait, errNotFresh)
	defer cancel()
	err := c.engine.WaitUntilFresh(waiting, revision)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotFresh), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return storage.NewTooLargeResourceVersionError(revision, c.engine.Revision(), retryFresh)
	case errors.Is(err, errStopped): // maybe for another one: the client comes back to it
		return apierrors.NewTooManyRequests(err.Error(), retryFresh)
	}
	return err
}

// timeout is context.WithTimeoutCause on the clock of the configuration. The context also ends
// with the Cacher, for errStopped.
func (c *Cacher) timeout(ctx context.Context, after time.Duration, cause error) (context.Context, context.CancelFunc) {
	timed, cancel := context.WithCancelCause(ctx)
	timer := c.config.Clock.NewTimer(after)
	go func() {
		select {
		case <-timer.C():
			cancel(cause)
		case <-c.ended:
			cancel(errStopped)
		case <-timed.Done():
		}
	}()
	return timed, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}
