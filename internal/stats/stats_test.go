// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestAHistogramHasEachDurationInTheFirstBucketThatTakesIt compares the bucket with a search for it.
func TestAHistogramHasEachDurationInTheFirstBucketThatTakesIt(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	durations := []time.Duration{-time.Second, 0, 1, time.Hour}
	for n := range bounds {
		bound, _ := Bound(n)
		durations = append(durations, bound-1, bound, bound+1)
	}
	for range 1000 {
		durations = append(durations, time.Duration(random.Int64N(int64(time.Microsecond)<<random.IntN(30))))
	}
	var all Durations
	for _, d := range durations {
		h := Histogram{}
		h.Observe(d)
		want := 0
		for bound, ok := Bound(want); ok && d > bound; bound, ok = Bound(want) {
			want++
		}
		got := h.Read()
		if got.Buckets[want] != 1 || got.Count != 1 || got.Sum != max(d, 0) {
			t.Fatalf("seed %d: %v is counted as %+v, want it in bucket %d", seed, d, got, want)
		}
		all.Add(got)
	}
	if all.Count != uint64(len(durations)) || all.Mean() != all.Sum/time.Duration(len(durations)) {
		t.Errorf("%d durations together: %+v", len(durations), all)
	}
	if (Durations{}).Mean() != 0 {
		t.Error("no durations have a mean")
	}
}

func TestASharedCounterLosesNothing(t *testing.T) {
	const goroutines, each = 16, 1000
	var counter Sharded
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			for range each {
				counter.Next()
			}
		})
	}
	running.Wait()
	if got := counter.Load(); got != goroutines*each {
		t.Errorf("%d additions count as %d", goroutines*each, got)
	}
}

// TestOneGoroutineCountsInOnePart, so that each 64th of its reads is a sample.
func TestOneGoroutineCountsInOnePart(t *testing.T) {
	var counter Sharded
	samples := 0
	for range 6400 {
		if counter.Next()%64 == 1 {
			samples++
		}
	}
	if samples < 100 || samples > 100+shards {
		t.Errorf("6,400 additions have %d samples of each 64th", samples)
	}
}

// TestCountingTakesNoMemory after the first count, on the paths of every read and every event.
func TestCountingTakesNoMemory(t *testing.T) {
	var (
		counter   Sharded
		histogram Histogram
	)
	if n := testing.AllocsPerRun(100, func() {
		counter.Next()
		histogram.Observe(Now())
	}); n > 0 {
		t.Errorf("to count allocates %v times", n)
	}
}

// BenchmarkCounting measures what is counted on a Get (Next), and on a call of a handler.
func BenchmarkCounting(b *testing.B) {
	b.Run("read", func(b *testing.B) {
		var counter Sharded
		for b.Loop() {
			counter.Next()
		}
	})
	b.Run("call", func(b *testing.B) {
		var histogram Histogram
		for b.Loop() {
			begin := Now()
			histogram.Observe(Now() - begin)
		}
	})
}
