// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"math"
	"sync/atomic"
)

// Budget bounds what the histories of several engines hold together. Each history may hold half of what the others leave free: one
// alone half of the budget, and n of them an equal part of n+1 each. So an engine that begins to write finds room at once. A
// history above its part gives bytes back with its next write or bookmark. The newest event of a history is kept in any case. It is
// safe for concurrent use.
type Budget struct {
	bytes int64
	held  atomic.Int64
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int) *Budget { return &Budget{bytes: int64(bytes)} }

// Held returns how many bytes the histories hold.
func (b *Budget) Held() int { return int(b.held.Load()) }

// room returns how many bytes a history may hold that holds some now. A nil budget has no bound.
func (b *Budget) room(own int) int {
	if b == nil {
		return math.MaxInt
	}
	return int(max(0, b.bytes-b.held.Load()+int64(own)) / 2)
}

// hold notes that a history holds more bytes, or less.
func (b *Budget) hold(more int) {
	if b != nil {
		b.held.Add(int64(more))
	}
}
