// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// minimumResync is client-go's: resyncs must not keep handlers busy all the time.
const minimumResync = time.Second

// resyncs says when event handlers are told of every object again. The rules are client-go's:
// before the informer starts the shortest period of all decides how often it checks, and
// afterwards that is fixed.
type resyncs struct {
	period time.Duration // of a handler that asks for none

	mu    sync.Mutex    // guards what follows; it comes after Informer.mu
	check time.Duration // resyncs are due at multiples of it after begin; zero is never
	begin time.Time     // of the run; zero before
}

func newResyncs(period time.Duration) *resyncs { return &resyncs{period: period, check: period} }

// start begins the run.
func (s *resyncs) start(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin = now
}

// admit returns the period of a handler that wants another one: at least a second, and not shorter
// than the informer checks; zero is never. If the handler gets another period than it wants, that
// is logged.
func (s *resyncs) admit(wanted time.Duration, logger klog.Logger, description string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wanted <= 0 {
		return 0
	}
	if s.check == 0 {
		logger.Info("Warning: the handler asks for resyncs, the informer has none", "type", description, "period", wanted)
		return 0
	}
	period := max(wanted, minimumResync)
	if period < s.check {
		if s.begin.IsZero() {
			s.check = period
		} else {
			period = s.check
		}
	}
	if period != wanted {
		logger.Info("Warning: the handler's resync period is too short", "type", description, "wanted", wanted, "period", period)
	}
	return period
}

// after returns the first time at which a resync is due, a period or more after now. It is zero
// if none ever is.
func (s *resyncs) after(now time.Time, period time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if period == 0 || s.check == 0 {
		return time.Time{}
	}
	checks := (now.Add(period).Sub(s.begin) + s.check - 1) / s.check
	return s.begin.Add(checks * s.check)
}

// next returns when the resync after the one at due is due. It leaves out those for which the
// handler was too slow.
func (s *resyncs) next(due, now time.Time, period time.Duration) time.Time {
	for !due.After(now) {
		due = s.after(due, period) // not after now, which is later: that would leave one out
	}
	return due
}

// errResync is the cause with which a wait for events ends when a resync is due.
var errResync = errors.New("resync")

// untilResync returns a context that ends with ctx, or when the next resync is due.
func untilResync(ctx context.Context, due time.Time) (context.Context, context.CancelFunc) {
	if due.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, due, errResync)
}
