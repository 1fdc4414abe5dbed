// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"time"
)

// fewest is how often the slowest calls are made, however long that takes.
const fewest = 3

// perCall returns the mean seconds of a call, by the clock of e, while calls are made
// for at least the time in e; the garbage that they leave to the collector is included.
// Before that one call is made that does not count, and the heap is collected, so that
// each measure begins alike. A call gets its number, from 0. Looking at the time costs
// some 50 ns of each.
func perCall(e effort, call func(n int) error) (float64, error) {
	if err := call(0); err != nil {
		return 0, err
	}
	runtime.GC()
	begin := now()
	for n := 1; ; n++ {
		if err := call(n); err != nil {
			return 0, err
		}
		if n >= fewest && time.Since(begin.wall) >= e.Call {
			took, err := seconds(e.Clock, begin, now())
			return took / float64(n), err
		}
	}
}
