// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import "sync"

// slowWatchers are the watchers that catch up, each in a goroutine.
type slowWatchers struct {
	sync.WaitGroup // of the goroutines

	mu      sync.Mutex                  // guards what follows; comes after the dispatcher's lock
	blocked map[*watcher]blockedWatcher // those that wait for their readers
}

// blockedWatcher says what a watcher waits with.
type blockedWatcher struct {
	position uint64        // of the event that the watcher needs next
	patience chan struct{} // is written to when the watcher has waited for long; nil if it does not care
	rounds   int           // how often it was found waiting
}

func (s *slowWatchers) add(w *watcher, position uint64, patience chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked[w] = blockedWatcher{position: position, patience: patience}
}

// round asks waits about each blocked watcher, and tells one that has waited since the round before by its channel patience.
func (s *slowWatchers) round(waits func(w *watcher, position uint64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, b := range s.blocked {
		if !waits(w, b.position) {
			continue
		}
		if b.rounds++; b.rounds > 1 && b.patience != nil {
			b.patience <- struct{}{} // there is room for one
			b.patience = nil
		}
		s.blocked[w] = b
	}
}

func (s *slowWatchers) remove(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.blocked, w)
}
