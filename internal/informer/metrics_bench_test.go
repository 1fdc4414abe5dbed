// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package informer

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/stats"
)

// BenchmarkRatio compares the CPU time of events that are counted with that of events that are not, in
// turns. The ratio differs by some hundredths from run to run, more than counting takes; so the counting is measured
// by itself too, and share-% is its part of an event that is counted.
//
//	go test -run - -bench Ratio/metrics -benchtime 20000x ./internal/informer
func BenchmarkRatio(b *testing.B) {
	const rounds = 4
	stream := newPodStream(b, 2_000)
	for _, handlers := range []int{1, 20} {
		b.Run(fmt.Sprintf("metrics/events, %d handlers", handlers), func(b *testing.B) {
			b.StopTimer()
			var with, without, alone int64
			for range rounds {
				without += stream.cpuOfEvents(b, handlers, false)
				with += stream.cpuOfEvents(b, handlers, true)
				alone += cpuOfCounting(b, handlers)
			}
			b.ReportMetric(100*float64(alone)/float64(with), "share-%")
			b.ReportMetric(float64(with)/float64(without), "ratio")
			b.ReportMetric(float64(without)/float64(rounds*b.N), "cpu-ns/uncounted")
		})
	}
}

// cpuOfCounting returns the CPU time that it takes to count b.N events: the time that an event took to decode (as
// listwatch.Counters does), the event, its age, when it was written, and each call of a handler.
func cpuOfCounting(b *testing.B, handlers int) int64 {
	var (
		c       counts
		age     progress
		decoded stats.Histogram
		written time.Duration
	)
	called := make([]calls, handlers)
	before := cpuTime(b)
	for range b.N {
		begin := stats.Now()
		decoded.Since(begin)
		c.events.Updated.Add(1)
		age.tell()
		written = stats.Now()
		for n := range called {
			called[n].end(called[n].begin())
		}
	}
	goruntime.KeepAlive(written)
	return cpuTime(b) - before
}

// cpuOfEvents returns the CPU time that b.N events take.
func (s podStream) cpuOfEvents(b *testing.B, handlers int, counted bool) int64 {
	s.events, s.begin = b.N, make(chan struct{})
	pods, err := listwatch.Structured(listwatch.Target{
		Config: s.config(), HTTPClient: (&s).client(), Scheme: s.scheme, Kind: podKind, Resource: corev1.SchemeGroupVersion.WithResource("pods"),
	})
	if err != nil {
		b.Fatal(err)
	}
	i, err := New(func(to Receiver) toolscache.ListerWatcher {
		o := listwatch.Options{Message: to.Message, Each: to.Each}
		if counted {
			o.Counters = &listwatch.Counters{}
		}
		return listwatch.New(pods, o)
	}, Options{Example: pods.Example()})
	if err != nil {
		b.Fatal(err)
	}
	counts, handles := make([]podCount, handlers), []*registration{}
	for n := range counts {
		c := &counts[n]
		c.from, c.missing, c.done = s.version(max(0, b.N-len(s.frames))), min(b.N, len(s.frames)), make(chan struct{})
		added, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: c.update})
		if err != nil {
			b.Fatal(err)
		}
		handles = append(handles, added.(*registration))
		handles[n].calls.uncounted = !counted
	}
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	var running sync.WaitGroup
	running.Go(func() { i.RunWithContext(ctx) })
	for _, h := range handles {
		<-h.synced.closed
	}
	before := cpuTime(b)
	close(s.begin)
	for n := range counts {
		<-counts[n].done
	}
	took := cpuTime(b) - before
	cancel()
	running.Wait()
	return took
}
