// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// firstPause and longestPause are between two questions to a server that has not answered the first
	// one. The pause doubles with each of them.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// patient asks a server that does not answer one question at a time, after a pause. Those who come meanwhile
// get the error of that question, or ask if there is none. It is safe for concurrent use.
type patient struct {
	mu    sync.Mutex // guards what follows
	last  error      // of the newest question, nil if that was answered
	pause time.Duration
	next  time.Time     // when the next question may be asked
	probe chan struct{} // closed when the question is answered for which others wait; nil if there is none
}

// ask calls question when it is time for that, and returns its error. Otherwise it returns the error of
// another question, or the cause for which ctx has ended.
func (p *patient) ask(ctx context.Context, question func(context.Context) error) error {
	p.mu.Lock()
	failed, probe, wait := p.last, p.probe, time.Until(p.next)
	if failed != nil && probe == nil {
		p.probe = make(chan struct{})
	}
	p.mu.Unlock()
	switch {
	case failed == nil:
	case probe == nil:
		defer p.probed()
		pause := time.NewTimer(wait)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	default:
		select {
		case <-probe:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := p.failed(); err != nil {
			return err
		}
	}
	err := question(ctx)
	p.note(err)
	return err
}

// note notes the error of a question. Those that were asked at the same time have one pause.
func (p *patient) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = err
	switch now := time.Now(); {
	case err == nil:
		p.pause, p.next = 0, time.Time{}
	case !now.Before(p.next):
		p.pause = min(max(2*p.pause, firstPause), longestPause)
		p.next = now.Add(p.pause)
	}
}

func (p *patient) probed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.probe)
	p.probe = nil
}

// failed returns the error of the newest question, nil if that was answered.
func (p *patient) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// gaveUp returns the error of a reader whose context has ended before there was an answer.
func (p *patient) gaveUp(cause error) error {
	if last := p.failed(); last != nil {
		return &UnansweredError{Cause: fmt.Errorf("%w, and the question before has failed: %w", cause, last)}
	}
	return &UnansweredError{Cause: cause}
}
