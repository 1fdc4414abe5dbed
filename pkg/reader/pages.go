// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxPages is how many states a store keeps for lists that are read page by page: every
	// write is counted for those that hold what it was before.
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
// endedFor; and when there are too many or they hold too much, of lists that nobody reads
// on before those that are being read: many callers read one page and never ask for more,
// and must not make those fail that do.
//
// The lock of an engine, whose writes call wrote, comes before that of pages.
type pages struct {
	keeping atomic.Bool // there are states; without a lock for writes, of which most find none
	// look says of each state how many bytes it holds, and how many all may hold: of a store
	// that does not tell of its writes. Otherwise it is nil.
	look func(states []any) (held []int, budget budget)

	mu     sync.Mutex // guards what follows
	newest uint64
	states []*pageState // in the order of their names
	pins   pins         // of the states
	budget budget       // of what they hold beside the state of now
	swept  bool         // a timer will call sweep
	looked time.Time    // when look was called
}

type pageState struct {
	name  uint64
	state any
	until time.Time // when it is dropped
	pin   pin
}

// newPages returns an empty set. The names of its states begin anywhere, so that a
// token of another store, or of another process, does not name a state of this one.
func newPages() *pages {
	return &pages{newest: rand.Uint64() >> 1}
}

// add keeps the state of a list that has begun, and returns its name, never 0. What was
// written while the list was answered is not counted; but a state of before a Replace, which
// has nothing in common with the state of now, is not kept.
func (p *pages) add(state any, made pin) uint64 {
	p.measure()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if made.position < p.pins.since {
		p.newest++
		return p.newest
	}
	if len(p.states) == maxPages {
		p.dropLocked(p.leastWantedLocked())
	}
	p.newest++
	if !p.swept {
		p.swept = true
		p.sweepLater()
	}
	added := &pageState{name: p.newest, state: state, until: time.Now().Add(pagesFor), pin: made}
	p.states = append(p.states, added)
	p.pins.insert(&added.pin)
	p.keeping.Store(true)
	return p.newest
}

// allow says how many bytes the states may hold from now on.
func (p *pages) allow(budget budget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = budget
}

// find returns the state called name. One that is not kept any more is a
// ResourceExpired API error, as it is from an API server.
func (p *pages) find(name uint64) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if s := p.namedLocked(name); s != nil {
		s.until, s.pin.reading = time.Now().Add(pagesFor), true
		return s.state, nil
	}
	return nil, apierrors.NewResourceExpired("the provided continue parameter is too old to display a consistent list result: begin the list again without it")
}

// end says that the last page was read of the state called name.
func (p *pages) end(name uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.namedLocked(name); s != nil {
		s.until, s.pin.reading = time.Now().Add(endedFor), false
	}
}

// wrote counts what the states hold of an object that was written or deleted; zero for a
// new one. Those that hold too much go.
func (p *pages) wrote(was item, reindexed bool) {
	if !p.keeping.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.states) == 0 {
		return
	}
	p.pins.wrote(&was, reindexed)
	p.fitLocked()
}

// replaced says that nothing of what there is now is in a state before position.
func (p *pages) replaced(position uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pins.since = position
}

// lookAgain is how long what look has said is good for while lists begin: to look takes as
// long as such a list.
const lookAgain = time.Second

// measure calls look, and drops the states that hold too much.
func (p *pages) measure() {
	p.mu.Lock()
	now := time.Now()
	if p.look == nil || now.Sub(p.looked) < lookAgain {
		p.mu.Unlock()
		return
	}
	p.looked = now
	kept, states := slices.Clone(p.states), make([]any, len(p.states))
	for i, s := range kept {
		states[i] = s.state
	}
	p.mu.Unlock()
	held, budget := p.look(states)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = budget
	for i, s := range kept {
		s.pin.versions = []span{{first: &s.pin, bytes: held[i]}}
	}
	p.pins.count()
	p.fitLocked()
}

// fitLocked drops states until those that are left do not hold too much.
func (p *pages) fitLocked() {
	for p.pins.held > p.budget.idle {
		if p.pins.idle() <= p.budget.idle && (p.pins.held <= p.budget.all || len(p.states) == 1) {
			return
		}
		p.dropLocked(p.leastWantedLocked())
	}
}

// drop drops the state called name.
func (p *pages) drop(name uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.namedLocked(name); s != nil {
		p.dropLocked(s)
	}
}

// clear drops all states: after a change of the form of all objects they have nothing in
// common with the state of now.
func (p *pages) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states, p.pins.list, p.pins.held = nil, nil, 0
	p.keeping.Store(false)
}

func (p *pages) namedLocked(name uint64) *pageState {
	if i := slices.IndexFunc(p.states, func(s *pageState) bool { return s.name == name }); i >= 0 {
		return p.states[i]
	}
	return nil
}

// leastWantedLocked returns the oldest state of a list that nobody reads, or else the oldest.
func (p *pages) leastWantedLocked() *pageState {
	return p.states[max(0, slices.IndexFunc(p.states, func(s *pageState) bool { return !s.pin.reading }))]
}

func (p *pages) dropLocked(s *pageState) {
	p.pins.remove(&s.pin)
	p.states = slices.DeleteFunc(p.states, func(other *pageState) bool { return other == s })
	p.keeping.Store(len(p.states) > 0)
}

// sweepLater has sweep called. The timer does not hold p, which goes with its store.
func (p *pages) sweepLater() {
	kept := weak.Make(p)
	time.AfterFunc(endedFor, func() {
		if p := kept.Value(); p != nil {
			p.sweep()
		}
	})
}

// sweep forgets what nobody has asked for in time, as long as there is anything.
func (p *pages) sweep() {
	p.measure()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if p.swept = len(p.states) > 0; p.swept {
		p.sweepLater()
	}
}

func (p *pages) expireLocked() {
	now := time.Now()
	for i := 0; i < len(p.states); {
		if s := p.states[i]; now.Before(s.until) {
			i++
		} else {
			p.dropLocked(s)
		}
	}
}
