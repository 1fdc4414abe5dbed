// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sync"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// idleShare is the part of a store's bytes, a quarter, for the states of lists that were never
	// continued. Most callers of such lists read no second page.
	idleShare = 4
	// smallStore is the size up to which a quarter would be little: it has room for an object
	// of the largest size that etcd takes, 1.5 MiB.
	smallStore = 2 << 20
)

// budget is how many bytes the states kept for pages may hold beside the state of now: first the states of lists that
// were never continued, and in addition the states of lists being read, each of which may hold the whole store as it
// was. A single state is dropped only if nobody reads its list, because it cannot hold more than a store.
type budget struct{ idle, reading int }

// budgetOf returns what pages may hold beside a store of so many bytes.
func budgetOf(bytes int) budget {
	return budget{idle: max(bytes/idleShare, min(bytes, smallStore)), reading: max(bytes, smallStore)}
}

// maxLooked is about how many objects are measured to estimate the size of all: a list must not
// wait for measuring a hundred thousand.
const maxLooked = 512

// size remembers how many bytes a store had when it was measured.
type size struct {
	mu       sync.Mutex // guards what follows
	position uint64     // of the state among the events
	objects  int
	bytes    storeBytes
}

// of returns about how many bytes the store of a state takes now.
func (m *size) of(state *watchcache.Snapshot[object.Object]) storeBytes {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.measureLocked(state)
	now := m.bytes.scaled(state.Len(), m.objects)
	now.tree, now.indexes = state.Trees()
	return now
}

// measureLocked measures the store of a state anew when a good part of it may have changed, so that
// lists seldom wait for it.
func (m *size) measureLocked(of *watchcache.Snapshot[object.Object]) {
	changes := int(max(of.Position(), m.position)-min(of.Position(), m.position)) + max(of.Len(), m.objects) - min(of.Len(), m.objects)
	if changes*idleShare >= m.objects {
		m.position, m.objects, m.bytes = of.Position(), of.Len(), measured(of)
	}
}

// storeBytes is about how many bytes the parts of a store take: objects that are kept flat and
// decoded ones, both with their keys, and the trees of objects and indexes.
type storeBytes struct{ flat, decoded, tree, indexes int }

func (b storeBytes) all() int { return b.objects() + b.tree + b.indexes }

func (b storeBytes) objects() int { return b.flat + b.decoded }

// scaled returns b for now in place of then objects.
func (b storeBytes) scaled(now, then int) storeBytes {
	b.flat, b.decoded = b.flat*now/max(1, then), b.decoded*now/max(1, then)
	return b
}

// measured looks at some objects of a state.
func measured(state *watchcache.Snapshot[object.Object]) (b storeBytes) {
	looked, every := 0, 1+state.Len()/maxLooked
	for n := 0; n < state.Len(); n += every {
		it := state.Nth(n)
		if it.Value.IsFlat() {
			b.flat += len(it.Key) + it.Value.Bytes()
		} else {
			b.decoded += len(it.Key) + it.Value.Bytes()
		}
		looked++
	}
	b = b.scaled(state.Len(), looked)
	b.tree, b.indexes = state.Trees()
	return b
}
