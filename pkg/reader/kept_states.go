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
	// endedFor is how long a state is kept behind the last page: a caller whose answer was lost
	// asks for that page again.
	endedFor = 30 * time.Second
)

// keptStates keeps the states of lists that have pages to come. It drops a state when nobody has
// asked for the next page for pagesFor, or for the last one again for endedFor. If there are too
// many states, or they hold too much, it drops some: first those of lists that nobody reads on,
// because many callers read one page and never ask for more, and must not make callers fail that
// do.
//
// The lock of an engine, whose writes call wrote, comes before that of keptStates.
type keptStates[S any] struct {
	keeping atomic.Bool // there are states; without a lock for writes, of which most find none
	// look returns how many bytes each state holds, and how many all may hold. It is nil of a
	// store that tells of its writes.
	look func(states []S) (held []int, budget budget)

	mu     sync.Mutex // guards what follows
	newest uint64
	states []*keptState[S] // in the order of their names
	pins   pins            // of the states
	// rewrites is how often all objects were changed in their form. It can be read without
	// the lock.
	rewrites atomic.Uint64
	budget   budget    // of what they hold beside the state of now
	swept    bool      // a timer will call sweep
	looked   time.Time // when look was called
}

// keptState is a state, and the name that it has in tokens.
type keptState[S any] struct {
	name  uint64
	state S
	until time.Time // when it is dropped
	pin   pin
}

// newKeptStates returns an empty set. The names of its states begin anywhere, so that a
// token of another store, or of another process, does not name a state of this one.
func newKeptStates[S any]() *keptStates[S] {
	return &keptStates[S]{newest: rand.Uint64() >> 1}
}

// add keeps the state of a list that has begun, and returns its name, never 0. What was
// written while the list was answered is not counted; but a state of before a Replace or a
// Rewrite, which has nothing in common with the state of now, is not kept.
func (p *keptStates[S]) add(state S, made pin) uint64 {
	p.measure()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if made.position < p.pins.since || made.rewrites != p.rewrites.Load() {
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
	added := &keptState[S]{name: p.newest, state: state, until: time.Now().Add(pagesFor), pin: made}
	p.states = append(p.states, added)
	p.pins.insert(&added.pin)
	p.keeping.Store(true)
	return p.newest
}

// allow sets how many bytes the states may hold from now on.
func (p *keptStates[S]) allow(budget budget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = budget
}

// find returns the state called name. One that is not kept any more is a
// ResourceExpired API error, as it is from an API server.
func (p *keptStates[S]) find(name uint64) (found S, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if s := p.namedLocked(name); s != nil {
		s.until, s.pin.reading = time.Now().Add(pagesFor), true
		return s.state, nil
	}
	return found, apierrors.NewResourceExpired("the provided continue parameter is too old to display a consistent list result: begin the list again without it")
}

// end notes that the last page was read of the state called name.
func (p *keptStates[S]) end(name uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.namedLocked(name); s != nil {
		s.until, s.pin.reading = time.Now().Add(endedFor), false
	}
}

// wrote counts what the states hold of an object that was written or deleted; zero for a
// new one. Those that hold too much go.
func (p *keptStates[S]) wrote(was item, reindexed bool) {
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

// replaced notes that no state before position has anything that is there now.
func (p *keptStates[S]) replaced(position uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pins.since = position
}

// lookAgain is how long what look has said is good for while lists begin: to look takes as
// long as such a list.
const lookAgain = time.Second

// measure calls look, and drops the states that hold too much.
func (p *keptStates[S]) measure() {
	p.mu.Lock()
	now := time.Now()
	if p.look == nil || now.Sub(p.looked) < lookAgain {
		p.mu.Unlock()
		return
	}
	p.looked = now
	kept, states := slices.Clone(p.states), make([]S, len(p.states))
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
func (p *keptStates[S]) fitLocked() {
	for p.pins.held > p.budget.idle {
		if p.pins.idle() <= p.budget.idle && (p.pins.held <= p.budget.all || len(p.states) == 1) {
			return
		}
		p.dropLocked(p.leastWantedLocked())
	}
}

// drop drops the state called name.
func (p *keptStates[S]) drop(name uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.namedLocked(name); s != nil {
		p.dropLocked(s)
	}
}

// rewritten drops all states: after a change of the form of all objects they have nothing in
// common with the state of now.
func (p *keptStates[S]) rewritten() {
	p.rewrites.Add(1) // before: a state that is added meanwhile is dropped, or refused
	p.clear()
}

// clear drops all states.
func (p *keptStates[S]) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states, p.pins.list, p.pins.held = nil, nil, 0
	p.keeping.Store(false)
}

// size returns how many states are kept, and how many bytes they hold beside the state of now.
func (p *keptStates[S]) size() (states, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.states), p.pins.held
}

func (p *keptStates[S]) namedLocked(name uint64) *keptState[S] {
	if i := slices.IndexFunc(p.states, func(s *keptState[S]) bool { return s.name == name }); i >= 0 {
		return p.states[i]
	}
	return nil
}

// leastWantedLocked returns the oldest state of a list that nobody reads, or else the oldest.
func (p *keptStates[S]) leastWantedLocked() *keptState[S] {
	return p.states[max(0, slices.IndexFunc(p.states, func(s *keptState[S]) bool { return !s.pin.reading }))]
}

func (p *keptStates[S]) dropLocked(s *keptState[S]) {
	p.pins.remove(&s.pin)
	p.states = slices.DeleteFunc(p.states, func(other *keptState[S]) bool { return other == s })
	p.keeping.Store(len(p.states) > 0)
}

// sweepLater has sweep called. The timer does not hold p, which goes with its store.
func (p *keptStates[S]) sweepLater() {
	kept := weak.Make(p)
	time.AfterFunc(endedFor, func() {
		if p := kept.Value(); p != nil {
			p.sweep()
		}
	})
}

// sweep forgets what nobody has asked for in time, as long as there is anything.
func (p *keptStates[S]) sweep() {
	p.measure()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if p.swept = len(p.states) > 0; p.swept {
		p.sweepLater()
	}
}

func (p *keptStates[S]) expireLocked() {
	now := time.Now()
	for i := 0; i < len(p.states); {
		if s := p.states[i]; now.Before(s.until) {
			i++
		} else {
			p.dropLocked(s)
		}
	}
}
