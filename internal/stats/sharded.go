// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"sync/atomic"
	"unsafe"
)

const (
	// shards is the number of parts of a Sharded counter, and cacheLine the bytes that a core takes
	// for itself when it writes.
	shards    = 8
	cacheLine = 64
)

// Sharded is a counter for paths on which many goroutines count at the same time. It has several
// parts in different cache lines, so that cores seldom take a line from each other. It takes a
// pointer until the first count, and 512 bytes from then on.
type Sharded struct {
	parts atomic.Pointer[[shards]shard]
}

type shard struct {
	n atomic.Uint64
	_ [cacheLine - 8]byte
}

// Next adds one and returns how far that part of the counter is which the goroutine has counted in:
// 1 for the first. It is for samples, such as every 64th.
func (s *Sharded) Next() uint64 { return made(&s.parts)[part()].n.Add(1) }

// Load returns the sum of all parts.
func (s *Sharded) Load() (sum uint64) {
	if parts := s.parts.Load(); parts != nil {
		for i := range parts {
			sum += parts[i].n.Load()
		}
	}
	return sum
}

// made returns what p points to. If that is nil, it makes one: callers at the same time get the same.
func made[T any](p *atomic.Pointer[T]) *T {
	if t := p.Load(); t != nil {
		return t
	}
	p.CompareAndSwap(nil, new(T))
	return p.Load()
}

// part returns the part for the calling goroutine. It is chosen by the place of the goroutine's stack:
// goroutines have different ones, and one goroutine mostly comes to the same part again.
func part() int {
	var here byte
	const golden = 0x9e3779b97f4a7c15
	return int((uint64(uintptr(unsafe.Pointer(&here))) >> 11) * golden >> 61)
}
