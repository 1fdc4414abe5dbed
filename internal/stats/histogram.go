// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// bounds is the number of buckets of a Histogram that have an upper bound.
const bounds = 13

// Histogram counts durations in buckets. It takes a pointer until the first duration, and 120 bytes more from then on.
type Histogram struct {
	counts atomic.Pointer[counts] // nil before the first duration
}

// counts are those of a Histogram.
type counts struct {
	buckets [bounds + 1]atomic.Uint64
	sum     atomic.Int64 // nanoseconds
}

// Bound returns the upper bound of the nth bucket, which belongs to it: a microsecond for the first one,
// and four times as long for each that follows, up to about 17 seconds. The last bucket has none:
// then ok is false.
func Bound(n int) (bound time.Duration, ok bool) {
	return time.Microsecond << (2 * n), n < bounds
}

// Observe counts a duration. A negative one counts as zero.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	c := made(&h.counts)
	c.buckets[bucketOf(d)].Add(1)
	c.sum.Add(int64(d))
}

// bucketOf returns the number of the first bucket whose bound is not lower than d.
func bucketOf(d time.Duration) int {
	whole := uint64(max(d-1, 0) / time.Microsecond)
	return min((bits.Len64(whole)+1)/2, bounds)
}

// Read returns what was observed so far.
func (h *Histogram) Read() (d Durations) {
	c := h.counts.Load()
	if c == nil {
		return d
	}
	for n := range c.buckets {
		d.Buckets[n] = c.buckets[n].Load()
		d.Count += d.Buckets[n]
	}
	d.Sum = time.Duration(c.sum.Load())
	return d
}

// Durations is what a [Histogram] has counted. The zero value has counted nothing.
type Durations struct {
	// Buckets has the number of durations in each bucket alone, see [Bound].
	Buckets [bounds + 1]uint64
	// Count is the number of all durations, and Sum is their sum.
	Count uint64
	Sum   time.Duration
}

// Add adds what another histogram has counted.
func (d *Durations) Add(other Durations) {
	for n, count := range other.Buckets {
		d.Buckets[n] += count
	}
	d.Count += other.Count
	d.Sum += other.Sum
}

// Mean returns the mean duration; zero if there is none.
func (d Durations) Mean() time.Duration {
	if d.Count == 0 {
		return 0
	}
	return d.Sum / time.Duration(d.Count)
}

// Unmeasured is the beginning of what is not measured, see [Histogram.Since].
const Unmeasured time.Duration = math.MinInt64

// Since counts the time since a beginning that Now has returned, unless it is Unmeasured.
func (h *Histogram) Since(begin time.Duration) {
	if begin != Unmeasured {
		h.Observe(Now() - begin)
	}
}

// begin is where Now begins to count.
var begin = time.Now()

// Now returns the time since some moment, which may be to come. Only the difference of two such times
// means anything.
func Now() time.Duration { return time.Since(begin) }
