// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import "context"

// Revision returns the revision up to which the state is complete.
func (e *Engine[V, A]) Revision() uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.revision
}

// Bookmark says that the state is complete up to revision, though nothing was
// written.
func (e *Engine[V, A]) Bookmark(revision uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if revision <= e.revision {
		return
	}
	e.revision = revision
	e.changeLocked()
	e.makeRoomLocked(0, 0, e.now()) // when nothing is written, events grow old all the same
	e.changed.Notify()
}

// WaitUntilFresh waits until the state is complete up to revision. The error is
// the cause for which ctx ended.
func (e *Engine[V, A]) WaitUntilFresh(ctx context.Context, revision uint64) error {
	return e.WaitUntilFreshAfter(ctx, revision, 0)
}

// WaitUntilFreshAfter is WaitUntilFresh for a revision of the time after so many calls of Restore.
func (e *Engine[V, A]) WaitUntilFreshAfter(ctx context.Context, revision uint64, restored int) error {
	return e.changed.Until(ctx, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.revision >= revision && e.restored >= restored
	})
}
