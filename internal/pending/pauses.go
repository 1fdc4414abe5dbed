// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// firstPause and longestPause follow a question that was not answered. The
	// pause doubles with each of them.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// pauses are between questions to a server that does not answer. It is safe for concurrent use.
type pauses struct {
	mu    sync.Mutex // guards what follows
	pause time.Duration
	next  time.Time // when the next question may be asked
	noted time.Time // when the pause became so long
	last  error     // of the last question, nil if it was answered
}

// wait waits until a question may be asked. If others were asked in its place for the longest pause, it returns the
// error of the last one.
func (p *pauses) wait(ctx context.Context) error {
	for latest := time.Now().Add(longestPause); ; {
		wait, last := p.turn()
		if wait <= 0 {
			return nil
		}
		if !time.Now().Before(latest) {
			return last
		}
		select {
		case <-time.After(min(wait, time.Until(latest))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// turn returns how long it is until a question may be asked. If the time is now, it is taken for asked.
func (p *pauses) turn() (wait time.Duration, last error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if wait = p.next.Sub(now); wait <= 0 {
		p.next = now.Add(p.pause)
	}
	return wait, p.last
}

// ended notes the error of a question that began at a time, nil if it was answered. Questions that were asked at the same time
// have one pause.
func (p *pauses) ended(began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch p.last = err; {
	case err == nil:
		p.pause, p.next = 0, now
	case !began.Before(p.noted):
		p.pause, p.noted = min(max(2*p.pause, firstPause), longestPause), now
		p.next = now.Add(p.pause)
	}
}

// gaveUp returns the error of a reader whose context has ended before there was an answer.
func (p *pauses) gaveUp(cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		return fmt.Errorf("%w, and the question before has failed: %w", cause, p.last)
	}
	return cause
}
