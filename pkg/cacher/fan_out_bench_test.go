// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cacher_test

import (
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// BenchmarkFanOut measures update events on their way from the storage to all watchers. Each has a
// goroutine that receives. Events come in bursts: the next burst when all watchers have the one
// before, so that only the stuck watcher is slow.
func BenchmarkFanOut(b *testing.B) {
	compare(b, subjects(), func(b *testing.B, s subject) {
		f := newFeed(1000)
		store := s.start(b, f.config())
		for _, watchers := range []int{1, 100, 1_000, 10_000} {
			for _, burst := range []int{1, 10} {
				for _, stuck := range []bool{false, true} {
					b.Run(fmt.Sprintf("Watchers=%d/Burst=%d/Stuck=%v", watchers, burst, stuck), func(b *testing.B) {
						if stuck {
							beStuck(b, f, store)
						}
						benchmarkFanOut(b, f, store, watchers, burst)
					})
				}
			}
		}
	})
}

func benchmarkFanOut(b *testing.B, f *feed, store storage.Interface, watchers, burst int) {
	o := &audience{missing: make(chan struct{}, 1), lost: make(chan struct{}, watchers), burst: burst, events: b.N}
	opened := make([]watch.Interface, watchers)
	for i := range opened {
		opened[i] = f.watch(b, store)
		o.receiving.Go(func() { o.receive(opened[i]) })
	}
	defer o.receiving.Wait()
	defer func() {
		for _, w := range opened {
			w.Stop()
		}
	}()
	goruntime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	for sent := 0; sent < b.N; {
		o.outstanding.Store(int64(watchers))
		for range min(burst, b.N-sent) {
			f.update(sent)
			sent++
		}
		select {
		case <-o.missing:
		case <-o.lost:
			b.Fatal("a watch has ended though it was read")
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// audience receives events in bursts.
type audience struct {
	burst, events int
	outstanding   atomic.Int64 // watchers that do not have all of the burst
	missing       chan struct{}
	lost          chan struct{}
	receiving     sync.WaitGroup
}

func (o *audience) receive(w watch.Interface) {
	received := 0
	for range w.ResultChan() {
		received++
		if (received%o.burst == 0 || received == o.events) && o.outstanding.Add(-1) == 0 {
			o.missing <- struct{}{}
		}
	}
	if received < o.events {
		o.lost <- struct{}{}
	}
}

// cpuTime is what the process has computed so far, the garbage collector included: on a
// machine that does other things too it tells more than the time that passed.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
