// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarn-dev/tarn/internal/note"
)

// NotOwnedError says that a replica may not work on a key now. It is also the cause of a context of [Ring.Hold] whose key was lost.
type NotOwnedError struct {
	Ring, Member, Key string
	Owner             string // the member that is to work on the key, or ""
	Cause             error  // why this replica works on nothing, or nil
}

// Error implements error.
func (e *NotOwnedError) Error() string {
	text := fmt.Sprintf("member %s of ring %s may not work on %q", e.Member, e.Ring, e.Key)
	switch {
	case e.Cause != nil:
		return fmt.Sprintf("%s: %s", text, e.Cause)
	case e.Owner == e.Member:
		return text + ": another member has not given it up yet"
	case e.Owner == "":
		return text + ": no member is known"
	}
	return fmt.Sprintf("%s: it is for member %s", text, e.Owner)
}

// Unwrap returns the cause.
func (e *NotOwnedError) Unwrap() error { return e.Cause }

// Hold begins work on a key, such as a reconcile. It does not wait: it returns a [NotOwnedError], a nil context and a nil function unless
// this replica may work on the key now. Nobody else works on the key until release has been called, which the caller does when the work has
// ended, on every way out. Work on one key may be held several times.
//
// The work may go on while the key leaves. The context that Hold returns is derived from ctx, and ends when release is called. It ends with
// a NotOwnedError as its cause when the key is lost, or when work goes on for longer than Options.DrainTimeout while the key leaves. Work
// whose context has ended must stop within two seconds with the default times (the package has the rule), and write nothing that
// [Ring.Check] refuses. A client of pkg/client asks Check before it sends a write with the context.
func (r *Ring) Hold(ctx context.Context, key string) (held context.Context, release func(), err error) {
	held, cancel := context.WithCancelCause(note.Fence(ctx, func() error { return r.Check(key) }))
	h := &hold{key: key, hash: hashOf(key), cancel: cancel}
	if err := r.begin(h); err != nil {
		cancel(err)
		return nil, nil, err
	}
	return held, sync.OnceFunc(func() { r.finish(h) }), nil
}

func (r *Ring) begin(h *hold) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock.now(); !r.view.inTime(now) || !r.view.mayWork(h.hash) {
		return r.notOwned(h.key, h.hash, now)
	}
	r.view.holds[h.key] = append(r.view.holds[h.key], h)
	return nil
}

// finish ends a hold. If the key is no longer ours, the Lease is to say that the work has ended.
func (r *Ring) finish(h *hold) {
	h.cancel(context.Canceled)
	r.update(func(v *view, _ time.Time) []*hold {
		rest := slices.DeleteFunc(v.holds[h.key], func(other *hold) bool { return other == h })
		if v.holds[h.key] = rest; len(rest) > 0 {
			return nil
		}
		if delete(v.holds, h.key); !v.mayWork(h.hash) {
			v.version++
		}
		return nil
	})
}

// Check returns nil if this replica may begin work on a key now, or has work on it that was not cancelled, and a [NotOwnedError] if not. A
// client asks it before each write.
func (r *Ring) Check(key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	hash, now := hashOf(key), r.clock.now()
	under := func(h *hold) bool { return !h.over }
	if r.view.inTime(now) && (r.view.mayWork(hash) || slices.ContainsFunc(r.view.holds[key], under)) {
		return nil
	}
	return r.notOwned(key, hash, now)
}

// notOwned returns why a key is not ours, under the lock.
func (r *Ring) notOwned(key string, hash uint64, now time.Time) *NotOwnedError {
	return &NotOwnedError{r.options.Ring, r.options.Member, key, r.ownerOf(hash), r.view.why(now)}
}
