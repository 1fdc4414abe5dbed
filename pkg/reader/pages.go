// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxPages is how many states a store keeps for lists that are read page by page:
	// each may hold an old version of every object.
	maxPages = 16
	// pagesFor is how long a state is kept from one page to the next: as long as an
	// API server keeps its own, which etcd compacts every five minutes.
	pagesFor = 5 * time.Minute
	// endedFor is how long it is kept behind the last page, for who asks for that again
	// because the answer was lost.
	endedFor = 30 * time.Second
)

// pages keeps the states of lists that have pages to come. What it keeps is dropped
// when nobody asked for the next page for pagesFor, or for the last one again for
// endedFor; and when there are too many, of lists that nobody reads on before those that
// are being read: many callers read one page and never ask for more, and must not make
// those fail that do.
type pages struct {
	mu     sync.Mutex // guards what follows
	newest uint64
	states []pageState // in the order of their names
	swept  bool        // a timer will call sweep
}

type pageState struct {
	name    uint64
	state   any
	until   time.Time // when it is dropped
	reading bool      // a page behind the first was read, and not yet the last
}

// newPages returns an empty set. The names of its states begin anywhere, so that a
// token of another store, or of another process, does not name a state of this one.
func newPages() *pages {
	return &pages{newest: rand.Uint64() >> 1}
}

// add keeps the state of a list that has begun, and returns its name, never 0.
func (p *pages) add(state any) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if len(p.states) == maxPages {
		oldest := max(0, slices.IndexFunc(p.states, func(s pageState) bool { return !s.reading }))
		p.states = slices.Delete(p.states, oldest, oldest+1)
	}
	p.newest++
	if !p.swept {
		p.swept = true
		time.AfterFunc(endedFor, p.sweep)
	}
	p.states = append(p.states, pageState{name: p.newest, state: state, until: time.Now().Add(pagesFor)})
	return p.newest
}

// find returns the state called name. One that is not kept any more is a
// ResourceExpired API error, as it is from an API server.
func (p *pages) find(name uint64) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if s := p.namedLocked(name); s != nil {
		s.until, s.reading = time.Now().Add(pagesFor), true
		return s.state, nil
	}
	return nil, apierrors.NewResourceExpired("the provided continue parameter is too old to display a consistent list result: begin the list again without it")
}

// end says that the last page was read of the state called name.
func (p *pages) end(name uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.namedLocked(name); s != nil {
		s.until, s.reading = time.Now().Add(endedFor), false
	}
}

func (p *pages) namedLocked(name uint64) *pageState {
	if i := slices.IndexFunc(p.states, func(s pageState) bool { return s.name == name }); i >= 0 {
		return &p.states[i]
	}
	return nil
}

// sweep forgets what nobody has asked for in time, as long as there is anything.
func (p *pages) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if p.swept = len(p.states) > 0; p.swept {
		time.AfterFunc(endedFor, p.sweep)
	}
}

func (p *pages) expireLocked() {
	if len(p.states) == 0 {
		return
	}
	now := time.Now()
	p.states = slices.DeleteFunc(p.states, func(s pageState) bool { return !now.Before(s.until) })
}
