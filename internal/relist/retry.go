// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package relist

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// ClockUntil returns a clock for a Reflector, with waits that end with ctx. Running has their goroutines.
func ClockUntil(ctx context.Context, c clock.WithTicker, running *sync.WaitGroup) clock.WithTicker {
	return runClock{c, ctx, running}
}

// Retry calls attempt until it is done or ctx has ended, with the delays of client-go's Reflector between two calls.
func Retry(ctx context.Context, c clock.Clock, attempt func(context.Context) (done bool)) {
	backoff := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 38, Factor: 2, Jitter: 1}
	_ = backoff.DelayWithReset(c, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) { return attempt(ctx), nil })
}

// runClock is the clock of a Reflector, whose waits end with ctx. A Reflector that is refused a
// streaming list waits for up to a minute before it tries again, and does not look at its context
// meanwhile. With another clock an informer would take as long to end.
type runClock struct {
	clock.WithTicker
	ctx     context.Context
	running *sync.WaitGroup // has the goroutines of the waits
}

// After implements clock.Clock.
func (c runClock) After(d time.Duration) <-chan time.Time {
	over, timer := make(chan time.Time, 1), c.NewTimer(d)
	c.running.Go(func() {
		select {
		case t := <-timer.C():
			over <- t
		case <-c.ctx.Done():
			timer.Stop()
			over <- c.Now()
		}
	})
	return over
}
