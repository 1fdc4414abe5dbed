// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"sync"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// idleShare is the part of a store's bytes, a quarter, that states of lists may hold that
	// nobody reads on: most of these lists are of callers that read no second page.
	idleShare = 4
	// smallStore is the size up to which a quarter would be little: it has room for an object
	// of the largest size that etcd takes, 1.5 MiB.
	smallStore = 2 << 20
)

// budget is how many bytes the states that are kept for pages may hold beside the state of
// now. Idle bounds the bytes that only states of lists hold that nobody reads on, and all bounds
// the bytes of all states: a list that is read for long holds the store as it was. A single
// state whose list is being read is never dropped for that, because it cannot hold more.
type budget struct{ idle, all int }

// budgetOf returns what pages may hold beside a store of so many bytes.
func budgetOf(bytes int) budget {
	idle := max(bytes/idleShare, min(bytes, smallStore))
	return budget{idle: idle, all: max(bytes, smallStore) + idle}
}

// maxLooked is about how many objects are looked at to say how large all are: a list must not
// wait for a look at a hundred thousand.
const maxLooked = 512

// size remembers how many bytes a store had when it was measured.
type size struct {
	mu       sync.Mutex // guards what follows
	position uint64     // of the state among the events
	objects  int
	bytes    int
}

// budget returns what pages may hold of the store of a state. That is measured anew when a
// good part of it may have changed, so that lists seldom wait for it.
func (m *size) budget(of *watchcache.Snapshot[object.Object]) budget {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes := int(max(of.Position(), m.position)-min(of.Position(), m.position)) + max(of.Len(), m.objects) - min(of.Len(), m.objects)
	if changes*idleShare >= m.objects {
		m.position, m.objects, m.bytes = of.Position(), of.Len(), bytesOf(of)
	}
	return budgetOf(m.bytes)
}

// bytesOf returns about how many bytes the objects of a state and its trees take.
func bytesOf(state *watchcache.Snapshot[object.Object]) int {
	objects, indexes := state.Trees()
	bytes, looked, every := 0, 0, 1+state.Len()/maxLooked
	for n := 0; n < state.Len(); n += every {
		it := state.Nth(n)
		bytes += len(it.Key) + it.Value.Bytes()
		looked++
	}
	return objects + indexes + bytes*state.Len()/max(1, looked)
}
