// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import "sync"

// blockedWatchers are the watchers that wait for their readers.
type blockedWatchers struct {
	mu       sync.Mutex // guards what follows; comes after that of the dispatcher
	watchers map[*watcher]blockedWatcher
}

// blockedWatcher says what a watcher waits with.
type blockedWatcher struct {
	position uint64        // of the event that the watcher needs next
	patience chan struct{} // is written to when the watcher has waited for long; nil if it does not care
	rounds   int           // how often it was found waiting
}

func (b *blockedWatchers) add(w *watcher, position uint64, patience chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers == nil {
		b.watchers = map[*watcher]blockedWatcher{}
	}
	b.watchers[w] = blockedWatcher{position: position, patience: patience}
}

func (b *blockedWatchers) remove(w *watcher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watchers, w)
}
