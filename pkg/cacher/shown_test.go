// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// shown is a storage whose Create returns when reads and watches show the object. Some of upstream's tests wait 150 ms for an event after
// Create. The watch of a busy etcd may take longer. One object is created at a time: upstream's Cacher ends a watch when
// ten events wait for its goroutine, which may have had no processor.
type shown struct {
	*fixture
	turn    sync.Mutex // is held by Create, before mu
	mu      sync.Mutex
	watches []*shownWatch
}

// Create implements storage.Interface.
func (c *shown) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if err := c.fixture.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, time.Millisecond, wait.ForeverTestTimeout, true, func(ctx context.Context) (bool, error) {
		got := newPod()
		err := c.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, got)
		if storage.IsNotFound(err) || err == nil && !apiequality.Semantic.DeepEqual(got, out) {
			return false, nil
		}
		return err == nil && c.brought(key, out), err
	})
}

// brought reports whether each watch that selects obj has brought its version, or has ended.
func (c *shown) brought(key string, obj runtime.Object) bool {
	version, err := storage.APIObjectVersioner{}.ObjectResourceVersion(obj)
	c.mu.Lock()
	defer c.mu.Unlock()
	return err == nil && !slices.ContainsFunc(c.watches, func(w *shownWatch) bool {
		selected, err := w.predicate.Matches(obj)
		return err == nil && selected && strings.HasPrefix(key, strings.TrimSuffix(w.key, "/")+"/") && !w.ended.Load() && w.newest.Load() < version
	})
}

// Watch implements storage.Interface.
func (c *shown) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	from, err := c.fixture.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	w := &shownWatch{Interface: from, key: key, predicate: opts.Predicate, events: make(chan watch.Event, 1000)}
	go w.run()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches = append(c.watches, w)
	return w, nil
}

// shownWatch takes the events of a watch before anybody wants them, a thousand at most.
type shownWatch struct {
	watch.Interface
	key       string
	predicate storage.SelectionPredicate
	events    chan watch.Event
	newest    atomic.Uint64 // version that has come
	ended     atomic.Bool
}

// ResultChan implements watch.Interface.
func (w *shownWatch) ResultChan() <-chan watch.Event { return w.events }

// run passes the events on, and notes the version of each, until the watch ends.
func (w *shownWatch) run() {
	defer close(w.events)
	defer w.ended.Store(true)
	for event := range w.Interface.ResultChan() {
		w.events <- event
		obj := event.Object
		if shared, ok := obj.(runtime.CacheableObject); ok {
			obj = shared.GetObject()
		}
		if timed, ok := obj.(storage.WatchEventWithRecordTime); ok {
			obj = timed.Unwrap()
		}
		if version, err := (storage.APIObjectVersioner{}).ObjectResourceVersion(obj); err == nil {
			w.newest.Store(max(w.newest.Load(), version))
		}
	}
}
