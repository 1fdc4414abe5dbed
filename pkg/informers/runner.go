// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"sync"
)

// runner runs functions in goroutines, from its start on, and waits for them. It is safe for concurrent use.
type runner struct {
	started chan struct{} // closed by run
	parts   *runner       // runs what is to live on; nil if that is r itself

	mu      sync.Mutex      // guards what follows
	ctx     context.Context // the life of everything that runs; nil before the start
	end     context.CancelCauseFunc
	stopped bool                    // nothing is started any more
	toRun   []func(context.Context) // at the start
	running sync.WaitGroup
}

func newRunner() *runner { return &runner{started: make(chan struct{})} }

// failFastError is the cause with which a runner ends itself.
type failFastError struct{ error }

// run starts what waits for it, and returns when ctx has ended, or fail was called, and every function has returned. The
// error is the one that fail was called with. A second call is an error.
func (r *runner) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if err := r.start(ctx, end); err != nil {
		return err
	}
	<-ctx.Done()
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.running.Wait()
	if failed := (failFastError{}); errors.As(context.Cause(ctx), &failed) {
		return failed.error
	}
	return nil
}

func (r *runner) start(ctx context.Context, end context.CancelCauseFunc) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return errStopped
	}
	if r.ctx != nil {
		return errors.New("informer already started: a cache can be started once")
	}
	r.ctx, r.end = ctx, end
	for _, f := range r.toRun {
		r.running.Go(func() { f(ctx) })
	}
	r.toRun = nil
	close(r.started)
	return nil
}

// Go runs f, which must return when its context ends, once the runner is started. It reports false if that has stopped.
func (r *runner) Go(f func(context.Context)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopped:
		return false
	case r.ctx == nil:
		r.toRun = append(r.toRun, f)
	default:
		ctx := r.ctx
		r.running.Go(func() { f(ctx) })
	}
	return true
}

// fail ends the runner, which runs, with an error.
func (r *runner) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(failFastError{err})
}

// finish ends the runner, which runs, without an error.
func (r *runner) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(nil)
}

// failed reports whether fail was called in time.
func (r *runner) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ctx != nil && errors.As(context.Cause(r.ctx), new(failFastError))
}

// ended reports whether nothing that is started now lives on.
func (r *runner) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped || r.ctx != nil && r.ctx.Err() != nil
}

// abandon lets nothing start any more, and reports false if the runner was started.
func (r *runner) abandon() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx != nil {
		return false
	}
	r.stopped, r.toRun = true, nil
	return true
}
