// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/signal"
)

// readiness says whether the cache holds the state of the storage.
type readiness struct {
	clock clock.PassiveClock

	mu         sync.Mutex // guards what follows
	ready      bool
	stopped    bool
	generation int       // how often it became ready
	reason     error     // why it is not, if that is known
	since      time.Time // the last change
	changed    signal.Broadcast
}

func newReadiness(c clock.PassiveClock) *readiness {
	return &readiness{clock: c, since: c.Now()}
}

var errStopped = errors.New("the cacher is stopped")

// set makes it ready, or not ready for the given reason, which may be nil.
func (r *readiness) set(ready bool, reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	r.reason = reason
	if r.ready == ready {
		return
	}
	r.ready, r.since = ready, r.clock.Now()
	if ready {
		r.generation++
	}
	r.changed.Notify()
}

// stop makes it not ready for good.
func (r *readiness) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.ready, r.stopped, r.reason, r.since = false, true, errStopped, r.clock.Now()
		r.changed.Notify()
	}
}

// check returns how often the cache became ready, or an error if it is not.
func (r *readiness) check() (generation int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation, r.errLocked()
}

// isReady reports whether the cache holds the state of the storage.
func (r *readiness) isReady() bool { _, err := r.check(); return err == nil }

// isIn reports whether the cache is ready and in a generation: it has not begun anew since then.
func (r *readiness) isIn(generation int) bool {
	now, err := r.check()
	return err == nil && now == generation
}

func (r *readiness) errLocked() error {
	switch {
	case r.ready:
		return nil
	case r.stopped:
		return errStopped
	case r.reason == nil:
		return errors.New("storage is (re)initializing")
	}
	return fmt.Errorf("storage is (re)initializing: %w", r.reason)
}

// wait waits until the cache is ready. The error is errStopped, or the cause for which ctx
// ended.
func (r *readiness) wait(ctx context.Context) error {
	var ready, stopped bool
	if err := r.changed.Until(ctx, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		ready, stopped = r.ready, r.stopped
		return ready || stopped
	}); err != nil || ready {
		return err
	}
	return errStopped
}

// firstWait bounds how long a request waits for a cache that was never ready. The cache of a new
// resource is ready within milliseconds, and a client that gets a 429 comes back a second later at
// the earliest.
const firstWait = time.Second

// admit returns the generation for a request. The error is a 429 that says when to come back.
func (r *readiness) admit(ctx context.Context) (generation int, err error) {
	if generation, err = r.check(); err == nil {
		return generation, nil
	}
	if r.mayComeSoon() {
		waiting, cancel := context.WithTimeout(ctx, firstWait)
		_ = r.wait(waiting) // whether it came is checked next
		cancel()
		if generation, err = r.check(); err == nil {
			return generation, nil
		}
	}
	return 0, apierrors.NewTooManyRequests(err.Error(), r.retryAfter())
}

// mayComeSoon reports that the cache is being initialized for the first time.
func (r *readiness) mayComeSoon() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation == 0 && r.reason == nil && !r.stopped
}

// retryAfter is upstream's: one second at first, thirty for a cache that has been down for
// a minute.
func (r *readiness) retryAfter() (seconds int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(min(30, max(1, math.Exp(0.06*r.clock.Since(r.since).Seconds()))))
}
