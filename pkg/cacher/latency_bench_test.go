// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// BenchmarkLatency measures how long a thousand events a second take to 99 watchers, while
// another one is stuck and while none is.
func BenchmarkLatency(b *testing.B) {
	compare(b, subjects(), func(b *testing.B, s subject) {
		f := newFeed(1000)
		store := s.start(b, f.config())
		for _, stuck := range []bool{false, true} {
			b.Run(fmt.Sprintf("Stuck=%v", stuck), func(b *testing.B) {
				if stuck {
					beStuck(b, f, store)
				}
				benchmarkLatency(b, f, store, 99)
			})
		}
	})
}

func benchmarkLatency(b *testing.B, f *feed, store storage.Interface, watchers int) {
	sent, latencies := make([]time.Time, b.N), make([][]time.Duration, watchers)
	var receiving sync.WaitGroup
	for i := range latencies {
		w := f.watch(b, store)
		receiving.Go(func() { latencies[i] = receiveTimed(w, sent) })
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	b.ResetTimer()
	for i := range sent {
		<-ticker.C
		sent[i] = time.Now()
		f.update(i)
	}
	receiving.Wait()
	b.StopTimer()
	all := slices.Concat(latencies...)
	if len(all) < watchers*b.N {
		b.Fatalf("%d of %d events were received: watches have ended though they were read", len(all), watchers*b.N)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*50/100]), "p50-ns")
	b.ReportMetric(float64(all[len(all)*99/100]), "p99-ns")
}

// receiveTimed returns how long each event took since it was sent.
func receiveTimed(w watch.Interface, sent []time.Time) []time.Duration {
	defer w.Stop()
	took := make([]time.Duration, 0, len(sent))
	for range w.ResultChan() {
		took = append(took, time.Since(sent[len(took)]))
		if len(took) == len(sent) {
			break
		}
	}
	return took
}

// stuckFor is how long a stuck client reads nothing.
const stuckFor = time.Second

// beStuck opens a watch that is stuck until the benchmark ends: it only reads now and then,
// and if it has been ended meanwhile, comes back, as clients do.
func beStuck(b *testing.B, f *feed, store storage.Interface) {
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	b.Cleanup(func() { cancel(); running.Wait() })
	w := f.watch(b, store)
	running.Go(func() {
		wait := time.NewTicker(stuckFor)
		defer wait.Stop()
		defer func() { w.Stop() }()
		for {
			select {
			case <-wait.C:
			case <-ctx.Done():
				return
			}
			if !hasEnded(w) {
				continue
			}
			if again, err := f.open(ctx, store); err == nil {
				w = again
			}
		}
	})
}

// hasEnded reads what there is to read.
func hasEnded(w watch.Interface) bool {
	for {
		select {
		case _, open := <-w.ResultChan():
			if !open {
				return true
			}
		default:
			return false
		}
	}
}
