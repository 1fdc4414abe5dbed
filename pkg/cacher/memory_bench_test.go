// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	goruntime "runtime"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// BenchmarkIdleWatchers measures the memory of watchers that have caught up, without what
// their owners take.
func BenchmarkIdleWatchers(b *testing.B) {
	const watchers = 10_000
	compare(b, subjects(), func(b *testing.B, s subject) {
		f := newFeed(1000)
		store := s.start(b, f.config())
		opened := make([]watch.Interface, watchers)
		for range b.N {
			before := inUse()
			for i := range opened {
				opened[i] = f.watch(b, store)
			}
			f.update(0)
			for _, w := range opened { // who has an event has caught up
				<-w.ResultChan()
			}
			b.ReportMetric(float64(inUse()-before)/watchers, "B/watcher")
			for _, w := range opened {
				w.Stop()
			}
		}
	})
}

// BenchmarkObjects measures the memory of 150,000 Pods, and the time to take them in.
func BenchmarkObjects(b *testing.B) {
	const objects = 150_000
	f := newFeed(objects)
	all := append(subjects(), subject{"tarn-flat", ours(cacher.Options{Decoded: ptr.To(false)})})
	compare(b, all, func(b *testing.B, s subject) {
		for range b.N {
			before := inUse()
			store := s.start(b, f.config())
			b.ReportMetric(float64(inUse()-before)/objects, "B/object")
			goruntime.KeepAlive(store)
		}
	})
}

// inUse returns the bytes of the heap that are reachable, and of all stacks.
func inUse() int64 {
	for range 3 { // finalizers, and pools that live for two collections
		goruntime.GC()
	}
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
