// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// waiting is an informer that waits for its idle time, as it was when somebody looked.
type waiting struct {
	*served
	turn  uint64
	since time.Time
}

// Copies implements scoped.Leases.
func (r *registry) Copies(measure func(any) int, found func(schema.GroupVersionKind, int)) {
	for _, c := range r.copiesOf(nil) {
		if bytes := c.measure(measure); bytes > 0 {
			found(c.GroupVersionKind, bytes)
		}
	}
}

// Evict implements scoped.Leases. The cache waits for the goroutines that end the informers.
func (r *registry) Evict(of func(schema.GroupVersionKind) bool, bytes int, evicted func(schema.GroupVersionKind, string, int)) {
	for _, w := range r.waitingOf(of) {
		if bytes <= 0 {
			return
		}
		took := 0
		if entry, made := w.in.Peek(w.key); made {
			took, _ = entry.Bytes()
		}
		if r.removeIdle(w.served, w.turn) {
			r.of.Go(func(context.Context) { w.end() })
			bytes -= took
			evicted(w.key.GroupVersionKind, "informer", took)
		}
	}
	for _, c := range r.copiesOf(of) {
		if bytes <= 0 {
			return
		}
		if took := c.drop(); took > 0 {
			bytes -= took
			evicted(c.GroupVersionKind, "copy", took)
		}
	}
}

// waitingOf returns the informers of some kinds that wait for their idle time, those that wait longest first.
func (r *registry) waitingOf(of func(schema.GroupVersionKind) bool) (all []waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, informers := range r.keys {
		if !of(key.GroupVersionKind) {
			continue
		}
		for s := range informers.all() {
			if s.idle != nil {
				all = append(all, waiting{s, s.turn, s.since})
			}
		}
	}
	slices.SortFunc(all, func(a, b waiting) int { return a.since.Compare(b.since) })
	return all
}

// copiesOf returns the copies of some kinds, those that were read longest ago first; nil stands for all kinds, in no order.
func (r *registry) copiesOf(of func(schema.GroupVersionKind) bool) (all []*objectCopy) {
	r.mu.Lock()
	for key, c := range r.copies {
		if of == nil || of(key.GroupVersionKind) {
			all = append(all, c)
		}
	}
	r.mu.Unlock()
	if of == nil {
		return all
	}
	unread := make(map[*objectCopy]int, len(all))
	for _, c := range all {
		c.try(func() { unread[c] = c.unread })
	}
	slices.SortFunc(all, func(a, b *objectCopy) int { return cmp.Compare(unread[b], unread[a]) })
	return all
}

// try calls f as a read, unless one is under way.
func (c *objectCopy) try(f func()) {
	select {
	case c.reading <- struct{}{}:
		f()
		<-c.reading
	default:
	}
}

// measure returns about how many bytes the copy takes. If a read is under way, it is what the copy took before.
func (c *objectCopy) measure(of func(any) int) int {
	c.try(func() {
		c.unread++
		if c.obj != nil && c.bytes.Load() == 0 {
			c.bytes.Store(int64(of(c.obj)))
		}
	})
	return int(c.bytes.Load())
}

// drop drops the object, unless it is being read, and returns about how many bytes it took. The version stays: the next read asks the
// API server, whatever the metadata tell of an older object.
func (c *objectCopy) drop() (bytes int) {
	c.try(func() {
		if c.obj != nil {
			bytes = int(c.bytes.Swap(0))
			c.obj = nil
		}
	})
	return bytes
}
