// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/stats"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// ReadPlan is how a read was answered.
type ReadPlan int

// The plans, the dearest last.
const (
	ReadKey   ReadPlan = iota // one object was looked up
	ReadIndex                 // an index found the objects, or some objects among which they are
	ReadAll                   // everything was wanted that a store or a namespace has, nothing was compared
	ReadScan                  // all objects of a store or a namespace were compared with the selectors
	plans
)

var planNames = [plans]string{"key", "index", "all", "scan"}

// String returns the word for the plan in metrics.
func (p ReadPlan) String() string { return planNames[p] }

// Way is how a store has answered a request.
type Way struct {
	Plan    ReadPlan
	index   string // the name of the index, if the plan is ReadIndex
	missing bool   // an index of a label would have spared work
}

// way returns how a request was answered by comparing so many objects.
func (q *Request) way(indexed string, looked int) Way {
	switch {
	case q.Key != "", q.Fields.Nothing():
		return Way{Plan: ReadKey}
	case q.counted():
		return Way{Plan: ReadAll}
	case indexed != "":
		return Way{Plan: ReadIndex, index: indexed}
	}
	return Way{Plan: ReadScan, missing: !Unrestricted(q.Labels) && looked > postings.ScanWorth}
}

// One of sampled Gets is measured: reading the clock twice takes as long as a part of a Get. The first
// of each part of the counter is.
const sampled = 64

// Reads counts the reads of one store. A nil *Reads counts nothing. It is safe for concurrent use.
type Reads struct {
	gets      stats.Sharded
	_         [64]byte // lists write to what follows, and each Get reads the pointer before it
	lists     [plans]atomic.Uint64
	durations [plans]stats.Histogram
	missing   atomic.Uint64 // label scans for which there was no index

	mu   sync.Mutex // guards hits
	hits map[string]uint64
}

// Get counts a Get that begins. The result is for Got.
func (r *Reads) Get() (begin time.Duration) {
	if r == nil || r.gets.Next()%sampled != 1 {
		return stats.Unmeasured
	}
	return stats.Now()
}

// Got measures a Get that has ended, one in so many.
func (r *Reads) Got(begin time.Duration) {
	if begin != stats.Unmeasured { // of a nil *Reads it always is
		r.durations[ReadKey].Since(begin)
	}
}

// Begin returns when a list begins.
func (r *Reads) Begin() time.Duration {
	if r == nil {
		return 0
	}
	return stats.Now()
}

// Count counts a list.
func (r *Reads) Count(p ReadPlan) {
	if r != nil {
		r.lists[p].Add(1)
	}
}

// Listed counts a list that has ended, and measures it.
func (r *Reads) Listed(p ReadPlan, begin time.Duration) {
	if r != nil {
		r.Count(p)
		r.durations[p].Since(begin)
	}
}

// Went counts how one store has answered.
func (r *Reads) Went(by Way) {
	if r == nil {
		return
	}
	if by.missing {
		r.missing.Add(1)
	}
	if by.index == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hits == nil {
		r.hits = map[string]uint64{}
	}
	r.hits[by.index]++
}

// used returns how often each index of a state was used, and forgets the counts of removed indexes.
func (r *Reads) used(state *watchcache.Snapshot[object.Object]) map[string]uint64 {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.hits, func(name string, _ uint64) bool { return state.Index(name) == nil })
	return maps.Clone(r.hits)
}
