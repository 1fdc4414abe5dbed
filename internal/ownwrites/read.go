// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// patience is how long a read waits for the watch to bring an object whose content is not
	// known, before it asks the server: a watch that works needs some milliseconds.
	patience = 200 * time.Millisecond
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

// UnansweredError is the error of a read for which the server was asked what became of a write, and did
// not say.
type UnansweredError struct {
	Cause error // of the question, or for which the read did not wait for the answer
}

// Error implements error.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("what became of a write is not known, and the server does not say: %v", e.Cause)
}

// Unwrap returns the cause.
func (e *UnansweredError) Unwrap() error { return e.Cause }

// ErrNoRevision is what Ask and List return if the server does not say of which revision its answer is:
// then there is nothing to compare with the watch, and what was asked for is dropped.
var ErrNoRevision = errors.New("the resource version of the list is no positive number")

var errLate = fmt.Errorf("it did not come within %v", waitFor)

// Read returns the newest state, and the entries that change what it shows, nil if there are none.
// It waits until the content of key, or of all keys with prefix if key is empty, is known. The key has
// the prefix too. The error says for what it waited in vain.
func (o *Overlay[V]) Read(ctx context.Context, prefix, key string) (*Set[V], *watchcache.Snapshot[V], error) {
	for {
		set := o.Load() // before the state, see the package comment
		state := o.options.State()
		if set == nil {
			return nil, state, nil
		}
		err := ctx.Err()
		if err != nil {
			err = context.Cause(ctx)
		} else if !floorPassed(set.floor, state) {
			err = o.reach(ctx, set.floor)
		} else if d := set.doubted(state, prefix, key); d != nil {
			err = o.dispel(ctx, d, prefix, key)
		} else if e := set.waiting(state, prefix, key); e != nil {
			err = o.settle(ctx, e, set, prefix, key == "")
		} else {
			if key == "" && !set.applies(state, prefix) {
				set = nil
			}
			return set, state, nil
		}
		if err != nil {
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

func (o *Overlay[V]) waitFor(ctx context.Context, revision uint64, history int) error {
	wait := func(ctx context.Context, revision uint64) error { return o.options.Wait(ctx, revision, history) }
	return WaitFor(ctx, o.options.State, wait, revision)
}

// settle waits until the watch has passed e, or the server was asked. A list waits for the watch alone
// if there was no room for the object: there may be many of these, and an answer would not have room
// either.
func (o *Overlay[V]) settle(ctx context.Context, e *Entry[V], set *Set[V], prefix string, list bool) error {
	if state := o.options.State(); list && e.full {
		if o.passed(state, e) {
			return nil
		}
		return o.waitFor(ctx, max(e.Revision, state.Revision()+1), e.history)
	}
	late, cancel := context.WithDeadline(ctx, e.noted.Add(patience))
	defer cancel()
	for e.Outcome != Unknown {
		state := o.options.State()
		if o.passed(state, e) {
			return nil
		}
		if err := o.options.Wait(late, state.Revision()+1, 0); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return o.behind(ctx, e.Revision)
	}
	if set.many(o.options.State(), prefix) {
		return o.askAll(ctx, prefix)
	}
	return o.ask(ctx, e.Key)
}

// behind returns the error of a read that ends with ctx.
func (o *Overlay[V]) behind(ctx context.Context, wanted uint64) error {
	return &BehindError{Wanted: wanted, Reached: o.options.State().Revision(), Cause: context.Cause(ctx)}
}

// once does f, once for all that wait for it under a name, and returns when that is done or ctx ends. f goes
// on when ctx has ended: others wait for it, or come back for it.
func (o *Overlay[V]) once(ctx context.Context, name string, f func(context.Context) error) error {
	done := o.asking.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		stop := context.AfterFunc(o.life, cancel)
		defer stop()
		return nil, o.patient.ask(ctx, f)
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return &UnansweredError{Cause: result.Err}
		}
		return nil
	case <-ctx.Done():
		return o.patient.gaveUp(context.Cause(ctx))
	}
}
