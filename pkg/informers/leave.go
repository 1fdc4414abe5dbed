// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"

	"github.com/tarn-dev/tarn/internal/listwatch"
)

// Live returns a map without informers that can leave the cache of m before that ends, see Leave. It is started and abandoned by itself.
// It knows which kinds the program has written in the scope of m. Live maps may be many, and come and go: their informers have no
// names in the metrics of client-go, and the policy of their kinds is Isolate unless it is WaitOnFailure by name. Alike says that
// o differs from the options of m in the namespace alone: then one watch may serve several live maps.
func (m *Map) Live(o Options, alike bool) *Map {
	o.written, o.place = m.options.written, aLive
	if alike && o.EnableWatchBookmarks {
		m.mu.Lock()
		if m.options.wides == nil {
			m.options.wides = listwatch.NewWides(o.HTTPClient, m.Go, o.Logger)
		}
		o.wides = m.options.wides
		m.mu.Unlock()
	}
	live := newRunner()
	live.parts = m.runner
	return newMap(o, live)
}

// Leave ends a live map that is used no more: it makes no request any more, event handlers are told that the objects are gone, and then
// Start returns. Leave does not wait for that. A map that was not started is abandoned: to start it does nothing. A second call does nothing.
func (m *Map) Leave() {
	if !m.leave() {
		return
	}
	if m.Abandon(); m.runner.ended() {
		return
	}
	entries := m.Entries()
	for _, entry := range entries {
		entry.base().Leave()
	}
	m.runner.Go(func(ctx context.Context) {
		for _, entry := range entries {
			select {
			case <-entry.base().Ended():
			case <-entry.life.ctx.Done(): // it was removed
			case <-ctx.Done():
				return
			}
		}
		for _, entry := range entries {
			m.take(entry.key)
		}
		m.runner.finish()
	})
}

// leave lets no informer be added any more, and reports false if the map has left before.
func (m *Map) leave() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaveLocked()
}

func (m *Map) leaveLocked() bool {
	if m.HasLeft() {
		return false
	}
	close(m.left)
	return true
}

// HasLeft reports whether Leave was called, or the informer of a part was removed: then reads of the map may miss objects.
func (m *Map) HasLeft() bool {
	select {
	case <-m.left:
		return true
	default:
		return false
	}
}

// HasStopped reports whether nothing runs in the map any more, or is about to end.
func (m *Map) HasStopped() bool { return m.runner.ended() }

// Left returns a channel that Leave closes.
func (m *Map) Left() <-chan struct{} { return m.left }
