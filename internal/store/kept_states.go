// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

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
	// maxPages is how many states a store keeps for lists that are read page by page.
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
// many states, or they hold too much, it drops some. States of lists that were never continued go
// first: many callers read one page alone, and must not make others fail.
//
// While there are states, their bytes are measured once a second, and not by writes.
type keptStates[S any] struct {
	// bytesHeld returns how many bytes each state holds beside the state of now and the states behind it,
	// and how many all may hold. Its states are in the order in which they were taken.
	bytesHeld func(states []S) (held []int, budget budget)
	// rewrites is how often all objects were changed in their form.
	rewrites atomic.Uint64

	mu       sync.Mutex // guards what follows
	newest   uint64
	states   []*keptState[S] // in the order of their names
	swept    bool            // a timer will call sweep
	measured time.Time       // when bytesHeld was called
}

// keptState is a state, and the name that it has in tokens.
type keptState[S any] struct {
	name    uint64
	state   S
	until   time.Time // when it is dropped
	reading bool      // a page behind the first was read, and not yet the last
	held    int       // bytes, when it was measured last
}

// newKeptStates returns an empty set. The names of its states begin anywhere, so that a
// token of another store, or of another process, does not name a state of this one.
func newKeptStates[S any](bytesHeld func([]S) ([]int, budget)) *keptStates[S] {
	return &keptStates[S]{bytesHeld: bytesHeld, newest: rand.Uint64() >> 1}
}

// add keeps the state of a list that has begun after so many rewrites, and returns its name, never 0. A state
// of before a Rewrite has nothing in common with the state of now, and is not kept.
func (p *keptStates[S]) add(state S, rewrites uint64) uint64 {
	p.measure()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	p.newest++
	if rewrites != p.rewrites.Load() {
		return p.newest
	}
	if len(p.states) == maxPages {
		p.dropLocked(p.leastWantedLocked())
	}
	if !p.swept {
		p.swept = true
		p.sweepLater()
	}
	p.states = append(p.states, &keptState[S]{name: p.newest, state: state, until: time.Now().Add(pagesFor)})
	return p.newest
}

// Find returns the state called name. If the state is not kept any more, the error is
// ResourceExpired, as from an API server.
func (p *keptStates[S]) Find(name uint64) (found S, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
	if s := p.namedLocked(name); s != nil {
		s.until, s.reading = time.Now().Add(pagesFor), true
		return s.state, nil
	}
	return found, apierrors.NewResourceExpired("the provided continue parameter is too old to display a consistent list result: begin the list again without it")
}

// End notes that the last page was read of the state called name.
func (p *keptStates[S]) End(name uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.namedLocked(name); s != nil {
		s.until, s.reading = time.Now().Add(endedFor), false
	}
}

// measureEvery is how long a result of bytesHeld is used: bytesHeld may take as long as a list.
const measureEvery = time.Second

// measure drops states until the others do not hold too much. It measures again after each, because another
// state may hold what was dropped.
func (p *keptStates[S]) measure() {
	p.mu.Lock()
	now := time.Now()
	wait := now.Sub(p.measured) < measureEvery
	if !wait {
		p.measured = now
	}
	p.mu.Unlock()
	for !wait && p.fit() {
	}
}

// fit measures the states, and reports whether it has dropped one for it.
func (p *keptStates[S]) fit() (dropped bool) {
	p.mu.Lock()
	kept, states := slices.Clone(p.states), make([]S, len(p.states))
	for i, s := range kept {
		states[i] = s.state
	}
	p.mu.Unlock()
	if len(kept) == 0 {
		return false
	}
	held, budget := p.bytesHeld(states) // without the lock, for which lists wait
	p.mu.Lock()
	defer p.mu.Unlock()
	idle, all := 0, 0
	for i, s := range kept {
		s.held, all = held[i], all+held[i]
		if !s.reading {
			idle += s.held
		}
	}
	if len(p.states) == 0 || idle <= budget.idle && (all <= budget.idle+budget.reading || len(p.states) == 1) {
		return false
	}
	p.dropLocked(p.leastWantedLocked())
	return true
}

// Drop drops the state called name.
func (p *keptStates[S]) Drop(name uint64) {
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
	p.states = nil
}

// size returns how many states are kept, and how many bytes they held beside the state of now when it was measured last.
func (p *keptStates[S]) size() (states, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.states {
		bytes += s.held
	}
	return len(p.states), bytes
}

func (p *keptStates[S]) namedLocked(name uint64) *keptState[S] {
	if i := slices.IndexFunc(p.states, func(s *keptState[S]) bool { return s.name == name }); i >= 0 {
		return p.states[i]
	}
	return nil
}

// leastWantedLocked returns the oldest state of a list that nobody reads, or else the oldest.
func (p *keptStates[S]) leastWantedLocked() *keptState[S] {
	return p.states[max(0, slices.IndexFunc(p.states, func(s *keptState[S]) bool { return !s.reading }))]
}

func (p *keptStates[S]) dropLocked(s *keptState[S]) {
	p.states = slices.DeleteFunc(p.states, func(other *keptState[S]) bool { return other == s })
}

// sweepLater has sweep called. The timer does not hold p, which goes with its store.
func (p *keptStates[S]) sweepLater() {
	kept := weak.Make(p)
	time.AfterFunc(measureEvery, func() {
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
