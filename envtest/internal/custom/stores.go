// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// ReleasePatience bounds the wait for the CRD server to let go of its stores. It does so a second after their CRD changed,
// and never if it failed to make another store of the CRD.
const ReleasePatience = 5 * time.Second

// Stores knows the stores of custom resources. The CRD server makes them when they are first needed, also from
// controllers that nobody can wait for, and destroys the stores of a changed or deleted CRD in goroutines of its own;
// Stop has to know of them nevertheless. The zero value is ready. It is safe for concurrent use.
type Stores struct {
	making  serving.Requests // stores that are being made
	cleanup *cleanup         // nil if the state is never replaced

	mu   sync.Mutex
	made map[schema.GroupResource]int // guarded by mu; counts the stores that ever were
	live map[*customStore]struct{}    // guarded by mu; stores that their owner has not destroyed
}

// Guard bounds what the CRD server's finalizer may do, where the state can be replaced. admit waits until nobody replaces the
// state, and returns the context of a write to it and how often it was replaced before. terminating reports whether a resource's
// definition is being deleted, as far as the CRD server knows. It is called before the server runs.
func (c *Stores) Guard(
	admit func(ctx context.Context) (context.Context, uint64, error), terminating func(schema.GroupResource) bool,
) {
	c.cleanup = &cleanup{admit, terminating}
}

// Track decorates the store of a custom resource so that it is known.
func (c *Stores) Track(resource schema.GroupResource, below generic.StorageDecorator) generic.StorageDecorator {
	return stores.Around(below, func(asked stores.Asked, next stores.Next) (storage.Interface, factory.DestroyFunc, error) {
		if !c.making.Enter() {
			return nil, nil, fmt.Errorf("create the store of %s: %w", resource, serving.ErrStopping)
		}
		defer c.making.Leave()
		store, destroy, err := next()
		if err != nil {
			return nil, nil, err
		}
		known := newCustomStore(store, destroy)
		known.cleanup = c.cleanup
		known.live = stores.LiveStore{Resource: resource, Prefix: asked.Prefix, NewFunc: asked.NewFunc, Store: known}
		return known, c.add(resource, known), nil
	})
}

// add notes a store and returns the function with which its owner destroys it.
func (c *Stores) add(resource schema.GroupResource, store *customStore) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		c.made, c.live = map[schema.GroupResource]int{}, map[*customStore]struct{}{}
	}
	c.made[resource]++
	store.number = c.made[resource]
	c.live[store] = struct{}{}
	return sync.OnceFunc(func() {
		store.destroy()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.live, store)
		close(store.released)
	})
}

// Count returns how many stores of a resource were ever made.
func (c *Stores) Count(resource schema.GroupResource) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made[resource]
}

// Refuse lets no further store be made, and waits for stores that are being made.
func (c *Stores) Refuse() { c.making.Close() }

// Close destroys the stores that are left and returns when their owners have done so too: the goroutines that will are
// gone then. Stores that nobody owns any more cost patience. Refuse has to be called before.
func (c *Stores) Close(patience time.Duration) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	left := c.left()
	for _, store := range left {
		store.destroy()
	}
	for _, store := range left {
		select {
		case <-store.released:
		case <-timeout.C:
			return
		}
	}
}

// Newest returns the stores that answer requests: the last one of each version. Older ones are of a definition that has
// changed, and may be unable to read what was stored since.
func (c *Stores) Newest() []stores.LiveStore {
	last := map[schema.GroupVersionKind]*customStore{}
	for _, store := range c.left() {
		kind := store.live.NewFunc().GetObjectKind().GroupVersionKind()
		if other := last[kind]; other == nil || other.number < store.number {
			last[kind] = store
		}
	}
	var stores []stores.LiveStore
	for _, store := range last {
		stores = append(stores, store.live)
	}
	return stores
}

// left returns the stores that their owners have not destroyed.
func (c *Stores) left() []*customStore {
	c.mu.Lock()
	defer c.mu.Unlock()
	var stores []*customStore
	for store := range c.live {
		stores = append(stores, store)
	}
	return stores
}
