// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"fmt"
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// patience is how long a read waits for the watch to bring an object whose content is not
	// known, before it asks the server: a watch that works needs some milliseconds.
	patience = 200 * time.Millisecond
	// askFor bounds a question to the server.
	askFor = 10 * time.Second
	// waitFor bounds the wait for a revision. Watches that work are seconds behind at most, unless
	// nothing is written: then a bookmark comes each minute, which is too long to wait for.
	waitFor = 10 * time.Second
)

// BehindError is the error of a read that waited for the watch in vain.
type BehindError struct {
	Wanted  uint64 // revision
	Reached uint64
	Cause   error // for which the wait ended
}

// Error implements error.
func (e *BehindError) Error() string {
	return fmt.Sprintf("the watch is at resource version %d, and the read needs %d: %v", e.Reached, e.Wanted, e.Cause)
}

// Unwrap returns the cause.
func (e *BehindError) Unwrap() error { return e.Cause }

var errLate = fmt.Errorf("it did not come within %v", waitFor)

// Read returns the newest state, and the entries that change what it shows, nil if there are none.
// It waits until the content of key, or of all keys with prefix if key is empty, is known. The
// error says for what it waited in vain.
func (o *Overlay[V]) Read(ctx context.Context, prefix, key string) (*Set[V], *watchcache.Snapshot[V], error) {
	for {
		set := o.Load() // before the state, see the package comment
		state := o.options.State()
		if set == nil {
			return nil, state, nil
		}
		if set.floor > state.Revision() {
			if err := WaitFor(ctx, o.options.State, o.options.Wait, set.floor); err != nil {
				return nil, nil, err
			}
			continue
		}
		e := set.waiting(state, prefix, key)
		if e == nil {
			if !set.applies(state) {
				set = nil
			}
			return set, state, nil
		}
		if err := o.settle(ctx, e); err != nil {
			return nil, nil, err
		}
	}
}

// WaitFor waits until the newest state has reached a revision, for at most ten seconds. The error is
// a *BehindError.
func WaitFor[V any](ctx context.Context, state func() *watchcache.Snapshot[V], wait func(context.Context, uint64) error, revision uint64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitFor, errLate)
	defer cancel()
	if err := wait(ctx, revision); err != nil {
		return &BehindError{Wanted: revision, Reached: state().Revision(), Cause: err}
	}
	return nil
}

// settle waits until the watch has passed e, or the server was asked.
func (o *Overlay[V]) settle(ctx context.Context, e *Entry[V]) error {
	late, cancel := context.WithDeadline(ctx, e.noted.Add(patience))
	defer cancel()
	for e.Outcome != Unknown {
		state := o.options.State()
		if o.passed(state, e) {
			return nil
		}
		if err := o.options.Wait(late, state.Revision()+1); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return &BehindError{Wanted: e.Revision, Reached: o.options.State().Revision(), Cause: context.Cause(ctx)}
	}
	return o.ask(ctx, e)
}

// ask asks the server for the object of e, once for all that wait.
func (o *Overlay[V]) ask(ctx context.Context, e *Entry[V]) error {
	done := o.asking.DoChan(e.Key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askFor) // others wait for it too
		defer cancel()
		answer, err := o.options.Ask(ctx, e.Key)
		if err == nil {
			o.answered(e, answer)
		}
		return nil, err
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return fmt.Errorf("what became of a write is not known, and the server does not say: %w", result.Err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
