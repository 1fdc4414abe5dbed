// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// afterEnd is longer than any time-out of a Cacher.
const afterEnd = time.Minute

// endingClock is the real clock until it ends: then every After fires, later ones fire at once, and every time-out has
// passed. Upstream's Cacher leaves a goroutine behind After for three seconds with each read that had to wait, even when
// the Cacher has stopped; and a reader that this goroutine wakes waits on, for ever, if its time is not up.
type endingClock struct {
	clock.RealClock

	mu      sync.Mutex
	ended   bool                           // guarded by mu
	pending map[chan time.Time]*time.Timer // guarded by mu; by the channel that After returned
}

var _ clock.WithTicker = (*endingClock)(nil)

func newEndingClock() *endingClock {
	return &endingClock{pending: map[chan time.Time]*time.Timer{}}
}

// Since implements clock.PassiveClock.
func (c *endingClock) Since(t time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return c.RealClock.Since(t) + afterEnd
	}
	return c.RealClock.Since(t)
}

// After implements clock.Clock.
func (c *endingClock) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		fired <- c.Now()
		return fired
	}
	c.pending[fired] = time.AfterFunc(d, func() { c.fire(fired) })
	return fired
}

// fire sends the time on a channel, once.
func (c *endingClock) fire(fired chan time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.pending[fired]; ok {
		fired <- c.Now()
		delete(c.pending, fired)
	}
}

// end lets every After fire.
func (c *endingClock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for fired, timer := range c.pending {
		timer.Stop()
		fired <- c.Now()
		delete(c.pending, fired)
	}
}
