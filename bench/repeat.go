// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"time"
)

// fewest is how often the slowest calls are made, however long that takes.
const fewest = 3

// perCall returns the mean seconds of a call over at least the time given, the
// garbage that calls leave to the collector included. Before that one call is made
// that does not count, and the heap is collected, so that each measure begins alike.
// A call gets its number, from 0. Looking at the clock costs some 50 ns of each.
func perCall(atLeast time.Duration, call func(n int) error) (float64, error) {
	if err := call(0); err != nil {
		return 0, err
	}
	runtime.GC()
	begin := time.Now()
	for n := 1; ; n++ {
		if err := call(n); err != nil {
			return 0, err
		}
		if took := time.Since(begin); n >= fewest && took >= atLeast {
			return took.Seconds() / float64(n), nil
		}
	}
}
