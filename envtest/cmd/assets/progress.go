// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// heartbeat is how often a stage says that it is still at work: often enough that nobody takes it for dead.
const heartbeat = 10 * time.Second

// progress tells a person what goes on: a line when a stage starts, one when it ends, and heartbeats between.
// It is safe for concurrent use.
type progress struct {
	start time.Time

	mu  sync.Mutex // guards out
	out io.Writer
}

func newProgress(out io.Writer) *progress {
	return &progress{start: time.Now(), out: out}
}

// printf writes one line, with the time since the start before it.
func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := time.Since(p.start).Round(time.Second)
	_, _ = fmt.Fprintf(p.out, "[%6s] %s\n", elapsed, fmt.Sprintf(format, args...))
}

// stage runs do and reports its start, its end and, while it runs, what do counts in its activity; unit is the
// plural of what is counted. It returns do's error once the heartbeat has ended.
func (p *progress) stage(name, unit string, do func(*activity) error) error {
	p.printf("%s", name)
	a := new(activity)
	done := make(chan struct{})
	var beat sync.WaitGroup
	beat.Go(func() { p.beat(name, unit, a, done) })
	err := do(a)
	close(done)
	beat.Wait()
	if err == nil {
		p.printf("%s: done%s", name, a.describe(unit))
	}
	return err
}

// beat writes heartbeats until done is closed.
func (p *progress) beat(name, unit string, a *activity, done <-chan struct{}) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			p.printf("%s%s ...", name, a.describe(unit))
		}
	}
}
