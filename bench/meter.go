// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"time"
)

// wholeCycles is how many collections a run has, if there is time. With Go's defaults
// a process that has collected twice has allocated twice its live heap.
const wholeCycles = 2

// look is how often the end of a collection is looked for; nothing tells of it.
const look = 10 * time.Millisecond

// meter counts what a run of many operations takes, with the collections that belong
// to them: a run begins and ends with the end of a collection. Otherwise a process
// with a gigabyte of heap would be charged for no collection in a second, or for a
// whole one.
type meter struct {
	clock       string
	least, most time.Duration // of wall time
	begin       instant
	from, last  collections
	looked      time.Time
}

func (e effort) meter(least, most time.Duration) *meter {
	runtime.GC()
	c := readCollections()
	return &meter{clock: e.Clock, least: least, most: most, begin: now(), from: c, last: c, looked: time.Now()}
}

// ended says whether the run has been long enough. It is cheap to ask.
func (m *meter) ended() bool {
	at := time.Now()
	if at.Sub(m.looked) < look {
		return false
	}
	c := readCollections()
	collected := c.cycles > m.last.cycles
	m.looked, m.last = at, c
	took := at.Sub(m.begin.wall)
	return took >= m.most || took >= m.least && collected && c.cycles >= m.from.cycles+wholeCycles
}

// cost is what a run took.
type cost struct {
	total     float64 // seconds, by the clock that was asked for
	collector float64 // seconds of CPU; part of total if that is CPU time
	wall      time.Duration
}

// cost returns what the run took until now. If it was cut short before it had its
// collections, one more is made, and the run is charged that part of it for which it
// has allocated, in place of what the collector happened to do in the meantime.
func (m *meter) cost() (cost, error) {
	end, c := now(), readCollections()
	total, err := seconds(m.clock, m.begin, end)
	took := cost{total: total, collector: c.cpu - m.from.cpu, wall: end.wall.Sub(m.begin.wall)}
	if c.cycles >= m.from.cycles+wholeCycles {
		return took, err
	}
	runtime.GC()
	after := readCollections()
	whole := (after.cpu - c.cpu) / float64(after.cycles-c.cycles)
	charged := whole * (c.allocated - m.from.allocated) / after.live
	if m.clock == cpuClock {
		took.total += charged - took.collector
	}
	took.collector = charged
	return took, err
}

// fewest is how often the slowest calls are made, however long that takes.
const fewest = 3

// perCall returns the mean seconds of a call. Before the run one call is made that
// does not count. A call gets its number, from 0. Looking at the time costs some 50 ns
// of each.
func (e effort) perCall(call func(n int) error) (float64, error) {
	if err := call(0); err != nil {
		return 0, err
	}
	m := e.meter(e.Least, e.Most)
	for n := 1; ; n++ {
		if err := call(n); err != nil {
			return 0, err
		}
		if n >= fewest && m.ended() {
			took, err := m.cost()
			return took.total / float64(n), err
		}
	}
}
