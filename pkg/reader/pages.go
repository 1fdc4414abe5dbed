// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
)

const (
	// maxPages is how many states a store keeps for lists that are read page by page:
	// each may hold an old version of every object.
	maxPages = 16
	// pagesFor is how long a state is kept from one page to the next: as long as an
	// API server keeps its own, which etcd compacts every five minutes.
	pagesFor = 5 * time.Minute
)

// pages keeps the states of lists that have pages to come. What it keeps is dropped
// when the last page was read; when nobody asked for the next one for pagesFor; and
// when there are too many, of lists that were not continued before those that were:
// many callers read one page and never ask for more, and must not make those fail
// that do.
type pages struct {
	clock clock.PassiveClock

	mu     sync.Mutex // guards what follows
	newest uint64
	states []pageState // in the order of their names
}

type pageState struct {
	name      uint64
	state     any
	read      time.Time // when the last page was
	continued bool
}

// newPages returns an empty set. The names of its states begin anywhere, so that a
// token of another store, or of another process, does not name a state of this one.
func newPages(clock clock.PassiveClock) *pages {
	return &pages{clock: clock, newest: rand.Uint64() >> 1}
}

// add keeps the state of a list that has begun, and returns its name, never 0.
func (p *pages) add(state any) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if len(p.states) == maxPages {
		oldest := max(0, slices.IndexFunc(p.states, func(s pageState) bool { return !s.continued }))
		p.states = slices.Delete(p.states, oldest, oldest+1)
	}
	p.newest++
	p.states = append(p.states, pageState{name: p.newest, state: state, read: p.clock.Now()})
	return p.newest
}

// find returns the state called name. One that is not kept any more is a
// ResourceExpired API error, as it is from an API server.
func (p *pages) find(name uint64) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	for i := range p.states {
		if s := &p.states[i]; s.name == name {
			s.read, s.continued = p.clock.Now(), true
			return s.state, nil
		}
	}
	return nil, apierrors.NewResourceExpired("the provided continue parameter is too old to display a consistent list result: begin the list again without it")
}

// drop forgets the state of a list that is complete.
func (p *pages) drop(name uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states = slices.DeleteFunc(p.states, func(s pageState) bool { return s.name == name })
}

// expire forgets what nobody has asked for in time.
func (p *pages) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
}

func (p *pages) expireLocked() {
	if len(p.states) == 0 {
		return
	}
	now := p.clock.Now()
	p.states = slices.DeleteFunc(p.states, func(s pageState) bool { return now.Sub(s.read) >= pagesFor })
}
