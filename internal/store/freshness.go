// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
)

// waitFor bounds the wait for a revision. Watches that work are seconds behind at most, unless nothing is written: then
// a bookmark comes each minute, which is too long to wait for.
const waitFor = 10 * time.Second

var errLate = fmt.Errorf("it did not come within %v", waitFor)

// LateError is the error of a read that needs a newer state than the store has.
type LateError struct {
	Wanted, Reached uint64
	Cause           error // why the wait ended
}

// Error implements error.
func (e *LateError) Error() string {
	return fmt.Sprintf("the store has reached revision %d, and %d is needed: %v", e.Reached, e.Wanted, e.Cause)
}

// Unwrap returns the cause.
func (e *LateError) Unwrap() error { return e.Cause }

// reach waits until the state is as new as a read needs it. The error is a *LateError.
func (s *Engine) reach(ctx context.Context, at Freshness) error {
	if at.Revision == 0 || s.engine.Snapshot().Revision() >= at.Revision {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, waitFor, errLate)
	defer cancel()
	if err := s.engine.WaitUntilFresh(ctx, at.Revision); err != nil {
		return &LateError{Wanted: at.Revision, Reached: s.engine.Snapshot().Revision(), Cause: err}
	}
	return nil
}

// getOver is get for a key that was written, or with a resource version to wait for. An object that
// is new enough itself needs no wait for the watch.
func (s *Engine) getOver(ctx context.Context, key string, at Freshness) (object.Object, bool, error) {
	for {
		item, ok, revision, err := s.findOver(ctx, key, at)
		if err != nil {
			return object.Object{}, false, err
		}
		if revision >= at.Revision || ok && item.Revision >= at.Revision {
			return item.Value, ok, nil
		}
		if err := s.reach(ctx, at); err != nil {
			return object.Object{}, false, err
		}
	}
}

// findOver returns the object under a key as of now, and the revision of the state.
func (s *Engine) findOver(ctx context.Context, key string, at Freshness) (found Item, ok bool, revision uint64, err error) {
	if at.Watched || s.own.Load().Empty() { // before the state, see package pending
		state := s.engine.Snapshot()
		found, ok = state.Get(key)
		return found, ok, state.Revision(), nil
	}
	view, err := s.own.Load().Read(ctx, pending.Target{Key: key})
	if err == nil {
		found, ok, err = view.Find(key)
		revision = view.Base().Revision()
	}
	return found, ok, revision, err
}

// reached refuses a read that needs a newer state than the store of an informer of the user's has:
// such an informer does not tell when it gets one.
func (s *Indexer) reached(at Freshness) error {
	if at.Revision == 0 {
		return nil
	}
	now, err := strconv.ParseUint(s.indexer.LastStoreSyncResourceVersion(), 10, 64)
	if err == nil && now >= at.Revision {
		return nil
	}
	return &LateError{Wanted: at.Revision, Reached: now, Cause: errors.New("the informers of NewInformer are not waited for")}
}
