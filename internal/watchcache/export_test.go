// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

// Ring returns the length of the ring and the number of events in it.
func (e *Engine[V, A]) Ring() (length, events int) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.window.slots), e.window.len()
}

// MaxRecent is how many older states are remembered.
const (
	MaxRecent = maxRecent
	MaxNear   = maxNear
	MaxMoved  = maxMoved
)

// OffLockAttempts is how often something is made without the lock.
const OffLockAttempts = offLockAttempts
