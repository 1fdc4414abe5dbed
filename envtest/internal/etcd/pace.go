// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"sync"
	"time"
)

const (
	// paceWrites is how many writes are made at once, and how many of them may wait for a watch before the next ones. The store
	// gives up on a watch that has 128 waiting, and then leaves it behind for a tenth of a second.
	paceWrites = 64

	// pacePatience is how long a watch may take nothing before nobody waits for it any more: as long as the store would leave it
	// behind, so that on a busy machine it is worth the wait.
	pacePatience = 100 * time.Millisecond
)

// pace lets a writer of much at once wait for the watches. It is safe for concurrent use.
type pace struct {
	takes chan struct{} // receives when a watch took something

	mu      sync.Mutex
	watches map[*watch]struct{} // guarded by mu
}

func newPace() *pace { return &pace{takes: make(chan struct{}, 1), watches: map[*watch]struct{}{}} }

func (p *pace) add(w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[w] = struct{}{}
}

func (p *pace) remove(w *watch) {
	p.mu.Lock()
	delete(p.watches, w)
	p.mu.Unlock()
	p.took()
}

// took says that a watch has less to take than before.
func (p *pace) took() {
	select {
	case p.takes <- struct{}{}:
	default: // the waiting writer will look anyway
	}
}

// wait returns when all watches but the slow ones have room for the next writes. A watch that takes nothing for a while is slow
// from then on.
func (p *pace) wait(slow map[*watch]bool) {
	idle := time.NewTimer(pacePatience)
	defer idle.Stop()
	for {
		behind := p.behind(slow)
		if len(behind) == 0 {
			return
		}
		select {
		case <-p.takes:
			idle.Reset(pacePatience)
		case <-idle.C:
			for _, w := range behind {
				slow[w] = true
			}
		}
	}
}

func (p *pace) behind(slow map[*watch]bool) []*watch {
	p.mu.Lock()
	defer p.mu.Unlock()
	var behind []*watch
	for w := range p.watches {
		if len(w.stream.Chan()) > paceWrites && !slow[w] {
			behind = append(behind, w)
		}
	}
	return behind
}
