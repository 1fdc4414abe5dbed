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
	"k8s.io/apiserver/pkg/storage/cacher/progress"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
)

const (
	// freshWait is how long a request waits until the cache has the revision that it asks
	// for. It is upstream's.
	freshWait = 3 * time.Second
	// retryFresh is after how many seconds a client is told to come back when that was not
	// enough.
	retryFresh = 1
)

var errNotFresh = errors.New("the cache is not as new as the request")

// waiter lets requests wait until the cache has the revision that they ask for.
type waiter struct {
	engine   *dispatch.Engine
	progress *progress.ConditionalProgressRequester
	clock    clock.WithTicker
	metrics  *metrics
	ended    <-chan struct{} // closed when the Cacher ends
}

// untilFresh waits until the cache has everything up to revision. The error is upstream's for a
// resource version that is too large, also if the time of ctx is up sooner, a 429 if the Cacher
// stops, or the cause for which ctx was cancelled.
func (w *waiter) untilFresh(ctx context.Context, revision uint64) error {
	if revision == 0 || revision <= w.engine.Revision() {
		return nil
	}
	if delegator.ConsistentReadSupported() { // else the storage tells in its own time
		w.progress.Add()
		defer w.progress.Remove()
	}
	begin := w.clock.Now()
	defer func() { w.metrics.waited(w.clock.Since(begin)) }()
	waiting, cancel := w.timeout(ctx, freshWait, errNotFresh)
	defer cancel()
	err := w.engine.WaitUntilFresh(waiting, revision)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotFresh), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return storage.NewTooLargeResourceVersionError(revision, w.engine.Revision(), retryFresh)
	case errors.Is(err, errStopped): // another Cacher may take its place: the client comes back to that
		return apierrors.NewTooManyRequests(err.Error(), retryFresh)
	}
	return err
}

// timeout is context.WithTimeoutCause on the clock of the configuration. The context also ends
// with the Cacher, for errStopped.
func (w *waiter) timeout(ctx context.Context, after time.Duration, cause error) (context.Context, context.CancelFunc) {
	timed, cancel := context.WithCancelCause(ctx)
	timer := w.clock.NewTimer(after)
	go func() {
		select {
		case <-timer.C():
			cancel(cause)
		case <-w.ended:
			cancel(errStopped)
		case <-timed.Done():
		}
	}()
	return timed, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}
