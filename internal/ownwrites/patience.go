// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

const (
	// firstPause and longestPause are between two questions of which the first one was not answered. The
	// pause doubles with each of them.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// patient asks a question that was not answered again after a pause. A question that fails does not hold up
// others that are answered, as when only a long list takes too long. If different questions fail, and none
// was answered meanwhile, the server does not answer: then there is a pause between any two of them. It is
// safe for concurrent use.
type patient struct {
	mu     sync.Mutex         // guards what follows
	failed map[string]*failed // questions that were not answered when they were asked last
	server failed             // of questions, whichever they are, since the last answer
	newest string             // the question that failed last; empty if one was answered after it
	next   *ending            // of the next question; nil if nobody waits for it
}

// ending is the end of a question.
type ending struct {
	done  chan struct{}
	asked bool // the server was asked; written before done is closed
}

// failed says that a question was not answered, and when the next one may be asked.
type failed struct {
	err   error
	pause time.Duration // that follows each question; 0 for none
	noted time.Time     // when the pause became so long
	next  time.Time
}

// fail notes the error of a question that began at a time. Those that are asked at the same time have one
// pause.
func (f *failed) fail(began, now time.Time, err error) {
	f.err = err
	if !began.Before(f.noted) {
		f.pause, f.noted = min(max(2*f.pause, firstPause), longestPause), now
		f.next = now.Add(f.pause)
	}
}

// errNothingToAsk is what a question returns that need not be asked any more.
var errNothingToAsk = errors.New("there is nothing to ask")

// ask calls question when it is time for that, and returns its error. A name stands for a question, which has
// one caller at a time. If that is not in the longest pause, because others were asked, the next error of one
// of them is that of the question.
func (p *patient) ask(ctx context.Context, name string, question func(context.Context) error) error {
	latest := time.Now().Add(longestPause)
	for ended := false; ; {
		wait, next, last := p.begin(name)
		if wait <= 0 {
			break
		}
		if ended && !time.Now().Before(latest) {
			return last
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
			ended = false // another one may have begun
		case <-next.done:
			pause.Stop()
			ended = next.asked
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
	began := time.Now()
	err := question(ctx)
	if err == errNothingToAsk {
		p.giveBack(began)
		return nil
	}
	p.note(name, began, err)
	return err
}

// begin returns how long it is until a question may be asked, the end of another one, and the error for which it
// has to wait. If the time is now, the question is taken for asked.
func (p *patient) begin(name string) (wait time.Duration, next *ending, last error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, until, last := time.Now(), p.server.next, p.server.err
	if own := p.failed[name]; own != nil {
		if last = own.err; own.next.After(until) {
			until = own.next
		}
	}
	if wait = until.Sub(now); wait <= 0 {
		p.server.next = now.Add(p.server.pause)
	} else if p.next == nil {
		p.next = &ending{done: make(chan struct{})}
	}
	return wait, p.next, last
}

// giveBack says of a question that began at a time that it was not asked: another one has its turn.
func (p *patient) giveBack(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server.pause > 0 && !p.server.next.After(began.Add(p.server.pause)) { // otherwise another one was asked since
		p.server.next = began
	}
	p.endLocked(false)
}

// endLocked wakes those who wait for the end of a question.
func (p *patient) endLocked(asked bool) {
	if p.next != nil {
		p.next.asked = asked
		close(p.next.done)
		p.next = nil
	}
}

// note notes that a question was answered, or with which error it was not.
func (p *patient) note(name string, began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked(true)
	if err == nil {
		delete(p.failed, name)
		p.server, p.newest = failed{}, ""
		return
	}
	now := time.Now()
	if p.newest != "" && p.newest != name {
		p.server.fail(began, now, err)
	}
	p.newest = name
	if p.failed[name] == nil {
		maps.DeleteFunc(p.failed, func(_ string, f *failed) bool { return now.Sub(f.next) > longestPause }) // nobody asks them
		if p.failed == nil {
			p.failed = map[string]*failed{}
		}
		p.failed[name] = &failed{}
	}
	p.failed[name].fail(began, now, err)
}

// gaveUp returns the error of a reader whose context has ended before there was an answer.
func (p *patient) gaveUp(name string, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.failed[name]; f != nil {
		return &UnansweredError{Cause: fmt.Errorf("%w, and the question before has failed: %w", cause, f.err)}
	}
	return &UnansweredError{Cause: cause}
}
