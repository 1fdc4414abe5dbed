// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"testing"

	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// subject is one of the Cachers that benchmarks compare. Its name is a part of the names
// of sub-benchmarks which are otherwise the same, so that ratios can be formed.
type subject struct {
	name  string
	start func(b *testing.B, config upstream.Config) storage.Interface
}

// subjects are ours and upstream's. Each is started alone: two in one process would share
// the time of the garbage collector.
func subjects() []subject {
	return []subject{{"tarn", ours(cacher.Options{})}, {"upstream", theirs}}
}

// compare runs a benchmark for each subject.
func compare(b *testing.B, subjects []subject, f func(*testing.B, subject)) {
	for _, s := range subjects {
		b.Run(s.name, func(b *testing.B) { f(b, s) })
	}
}

// ours starts our Cacher, which ends with the benchmark, and waits until it is ready.
func ours(o cacher.Options) func(*testing.B, upstream.Config) storage.Interface {
	return func(b *testing.B, config upstream.Config) storage.Interface {
		b.Helper()
		c, err := cacher.New(cacher.Config{
			Storage: config.Storage, GroupResource: config.GroupResource, ResourcePrefix: config.ResourcePrefix,
			KeyFunc: config.KeyFunc, GetAttrsFunc: config.GetAttrsFunc, IndexerFuncs: config.IndexerFuncs, Indexers: config.Indexers,
			NewFunc: config.NewFunc, NewListFunc: config.NewListFunc, Codec: config.Codec, Options: o,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Stop)
		if err := c.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		return c
	}
}

// theirs does so with upstream's.
func theirs(b *testing.B, config upstream.Config) storage.Interface {
	b.Helper()
	config.Versioner, config.Clock = storage.APIObjectVersioner{}, clock.RealClock{}
	config.EventsHistoryWindow = upstream.DefaultEventFreshDuration
	c, err := upstream.NewCacherFromConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Stop)
	if err := c.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
	d := upstream.NewCacheDelegator(c, config.Storage)
	b.Cleanup(d.Stop)
	return d
}
