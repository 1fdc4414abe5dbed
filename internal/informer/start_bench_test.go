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

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// BenchmarkStart measures an informer of Pods with an index and handlers that were added before, from its start
// until the last handler has every Pod: the streaming list in protobuf included.
//
//	go test -run - -bench Start -benchtime 5x ./internal/informer
func BenchmarkStart(b *testing.B) {
	for _, pods := range []int{1_000, 20_000} {
		stream := newPodStream(b, pods)
		stream.begin = make(chan struct{}) // no event comes
		stream.stream(b)
		for _, handlers := range []int{0, 1, 20} {
			for name, o := range benchmarkedInformers() {
				b.Run(fmt.Sprintf("%d/%s/%d", pods, name, handlers), func(b *testing.B) {
					b.ReportAllocs()
					cpu := int64(0)
					for b.Loop() {
						cpu += benchmarkStart(b, stream, handlers, o)
					}
					b.ReportMetric(float64(cpu)/1e6/float64(b.N), "cpu-ms/op")
				})
			}
		}
	}
}

func nodeOf(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }

// benchmarkStart returns the CPU time of one start, in nanoseconds.
func benchmarkStart(b *testing.B, s *podStream, handlers int, o *Options) int64 {
	b.StopTimer()
	informer := s.informer(b, o)
	if err := informer.AddIndexers(toolscache.Indexers{"spec.nodeName": nodeOf}); err != nil {
		b.Fatal(err)
	}
	var missing sync.WaitGroup
	for range handlers {
		missing.Add(len(s.frames))
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { missing.Done() }}); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	var running sync.WaitGroup
	goruntime.GC()
	before := cpuTime(b)
	b.StartTimer()
	running.Go(func() { informer.RunWithContext(ctx) })
	<-informer.HasSyncedChecker().Done()
	missing.Wait()
	b.StopTimer()
	taken := cpuTime(b) - before
	cancel()
	running.Wait()
	b.StartTimer()
	return taken
}
