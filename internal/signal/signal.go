// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signal tells goroutines that something has changed.
package signal

import (
	"context"
	"sync/atomic"
)

// Broadcast wakes all goroutines that wait for the next change. The zero value is ready. A Broadcast
// must not be copied; it is safe for concurrent use. A change that nobody waits for costs one atomic read.
type Broadcast struct {
	next atomic.Pointer[chan struct{}] // closed and removed by Notify; nil if nobody waits
}

// Wait returns a channel that the next Notify closes. To miss no change, call Wait before you read
// what may change.
func (b *Broadcast) Wait() <-chan struct{} {
	for {
		if next := b.next.Load(); next != nil {
			return *next
		}
		next := make(chan struct{})
		if b.next.CompareAndSwap(nil, &next) {
			return next
		}
	}
}

// Notify closes the channel that Wait has returned. Call it after the change.
func (b *Broadcast) Notify() {
	if b.next.Load() == nil {
		return
	}
	if next := b.next.Swap(nil); next != nil {
		close(*next)
	}
}

// Until calls done now and after each change, and returns nil when done reports true. If ctx ends first,
// Until returns the cause. No lock is held while Until waits: done takes the lock that it needs.
func (b *Broadcast) Until(ctx context.Context, done func() bool) error {
	if done() { // before Wait, which allocates
		return nil
	}
	for {
		changed := b.Wait()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// WaitFor reports whether a channel was closed before ctx ended. Nil counts as closed.
func WaitFor(ctx context.Context, closed <-chan struct{}) bool {
	if closed == nil {
		return true
	}
	select {
	case <-closed:
		return true
	case <-ctx.Done():
		return false
	}
}
