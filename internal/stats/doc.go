// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stats has what the parts of a cache count with: counters for paths on which many goroutines
// meet, and histograms of durations. Both are read as plain values, by whoever wants to know; they
// know nothing of Prometheus. All types are safe for concurrent use, and their zero values are ready.
//
// Counting must cost next to nothing. Adding to a [Sharded] counter is one atomic addition to a
// cache line that other goroutines seldom write, an observation of a [Histogram] two. The clock is
// [Now], which takes about half as long as time.Now. The first count of each allocates its memory.
package stats
