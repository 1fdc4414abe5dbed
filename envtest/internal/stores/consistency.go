// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// checkPatience bounds the check of one store. It reads a whole resource from an etcd in this process.
const checkPatience = 10 * time.Second

// Consistency compares watch caches with the storage below them when they are destroyed, and keeps what differs. A nil one
// compares nothing. It is safe for concurrent use.
type Consistency struct {
	mu   sync.Mutex
	errs []error // guarded by mu
}

// checkedStore is a store that can compare itself with the storage below. cacher.Cacher is one.
type checkedStore interface {
	storage.Interface
	CheckConsistency(context.Context) error
}

// of decorates the stores of a resource: a store that can compare itself does so before it is destroyed.
func (c *Consistency) of(resource schema.GroupResource, below generic.StorageDecorator) generic.StorageDecorator {
	if c == nil {
		return below
	}
	return Around(below, func(_ Asked, next Next) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := next()
		checked, ok := store.(checkedStore)
		if err != nil || !ok {
			return store, destroy, err
		}
		check := sync.OnceFunc(func() { c.check(resource, checked) }) // a destroyed store has nothing to say
		return store, func() {
			check()
			destroy()
		}, nil
	})
}

// check compares one store. Only a difference counts: a store that is not ready holds nothing, and a store cannot be
// read any more when the webhook of its objects has ended before.
func (c *Consistency) check(resource schema.GroupResource, store checkedStore) {
	ctx, cancel := context.WithTimeout(context.Background(), checkPatience)
	defer cancel()
	if err := store.CheckConsistency(ctx); errors.Is(err, cacher.ErrInconsistent) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errs = append(c.errs, fmt.Errorf("the watch cache of %s: %w", resource, err))
	}
}

// Err returns what was found so far.
func (c *Consistency) Err() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}
