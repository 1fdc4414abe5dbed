// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/utils/clock"
)

// shardLabel is a label that a thousandth of the Pods have with the same value.
const (
	shardLabel = "shard"
	shardCount = 1000
)

// BenchmarkStoreList is upstream's benchmark of lists, and one of ours for labels, on both
// Cachers. They are in front of an etcd of their own: the benchmark lists at the revisions of
// a new one.
func BenchmarkStoreList(b *testing.B) {
	data := storagetesting.PrepareBenchmarkData(10_000, 15, 5_000)
	for i, pod := range data.Pods {
		pod.Labels = labels.Set{shardLabel: strconv.Itoa(i % shardCount)}
	}
	compare(b, subjects(), func(b *testing.B, s subject) {
		store := s.start(b, examplePods(newStorage(b)))
		if err := storagetesting.PrecreateBenchmarkPods(b.Context(), store, data); err != nil {
			b.Fatal(err)
		}
		b.Run("Scope=Label", func(b *testing.B) { benchmarkLabel(b, store, len(data.Pods)/shardCount) })
		b.Run("Indexed=true", func(b *testing.B) { storagetesting.RunBenchmarkStoreList(b.Context(), b, store, data, true) })
		b.Run("Indexed=false", func(b *testing.B) { storagetesting.RunBenchmarkStoreList(b.Context(), b, store, data, false) })
	})
}

// benchmarkLabel lists by one value of a label, consistently.
func benchmarkLabel(b *testing.B, store storage.Interface, want int) {
	for i := range b.N {
		opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
		opts.Predicate.GetAttrs = podAttributes
		opts.Predicate.Label = labels.SelectorFromSet(labels.Set{shardLabel: strconv.Itoa(i % shardCount)})
		list := &example.PodList{}
		if err := store.GetList(b.Context(), podPrefix, opts, list); err != nil {
			b.Fatal(err)
		}
		if len(list.Items) != want {
			b.Fatalf("the list has %d Pods, want %d", len(list.Items), want)
		}
	}
}

// BenchmarkStoreWriteThroughput is upstream's benchmark of writes on both Cachers.
func BenchmarkStoreWriteThroughput(b *testing.B) {
	data := storagetesting.PrepareBenchmarkData(50, 3_000, 5_000)
	compare(b, subjects(), func(b *testing.B, s subject) {
		store := s.start(b, examplePods(newStorage(b)))
		if err := storagetesting.PrecreateBenchmarkPods(b.Context(), store, data); err != nil {
			b.Fatal(err)
		}
		tracker := storagetesting.NewWatchLatencyTracker(clock.RealClock{})
		trackLatency(b, store, tracker)
		storagetesting.RunBenchmarkWriteThroughput(b.Context(), b, store, data, true, tracker)
	})
}

// trackLatency lets tracker see all writes by a watch, until the benchmark ends. Upstream's
// own benchmark does so inside of upstream's Cacher.
func trackLatency(b *testing.B, store storage.Interface, tracker *storagetesting.WatchLatencyTracker) {
	ctx, cancel := context.WithCancel(b.Context())
	revision, err := store.GetCurrentResourceVersion(ctx)
	if err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	b.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		version := strconv.FormatUint(revision, 10)
		for ctx.Err() == nil { // upstream's Cacher ends watches that are slow
			w, err := store.Watch(ctx, podPrefix, storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything})
			if err != nil {
				continue
			}
			for event := range w.ResultChan() {
				if m, ok := event.Object.(metav1.Object); ok {
					tracker.HandleEvent(m)
					version = m.GetResourceVersion()
				}
			}
		}
	})
}

// newStorage returns an etcd3 store of Pods with an etcd of its own.
func newStorage(b *testing.B) storage.Interface {
	b.Helper()
	config := testserver.NewTestConfig(b)
	config.QuotaBackendBytes = 16 << 30 // the writes of a long run
	client := testserver.RunEtcd(b, config)
	b.Cleanup(func() { _ = client.Close() })
	compactor := etcd3.NewCompactor(client.Client, 0, clock.RealClock{}, nil)
	b.Cleanup(compactor.Stop)
	s, versioner := newSetup(), storage.APIObjectVersioner{}
	store, err := etcd3.New(client, compactor, s.codec, newPod, newPodList, etcd3testing.PathPrefix(), podPrefix,
		pods, s.transformer, etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(s.codec, versioner), versioner)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	return store
}

// examplePods configures a Cacher for the Pods of upstream's benchmarks.
func examplePods(below storage.Interface) upstream.Config {
	s := newSetup(indexed)
	return upstream.Config{
		Storage: below, GroupResource: pods, ResourcePrefix: podPrefix, KeyFunc: s.keyFunc, GetAttrsFunc: podAttributes,
		IndexerFuncs: s.triggers, Indexers: &s.indexers, NewFunc: newPod, NewListFunc: newPodList, Codec: s.codec,
	}
}
