// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/tarn-dev/tarn/envtest/internal/storagekey"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// builtinStores are the stores of built-in resources. It is safe for concurrent use.
type builtinStores struct {
	mu    sync.Mutex
	known map[string]stores.LiveStore // guarded by mu; by resource prefix
}

func newBuiltinStores() *builtinStores { return &builtinStores{known: map[string]stores.LiveStore{}} }

// track decorates the store of a resource so that it is known.
func (s *builtinStores) track(resource schema.GroupResource, below generic.StorageDecorator) generic.StorageDecorator {
	return stores.Around(below, func(asked stores.Asked, next stores.Next) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := next()
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.known[storagekey.Prefix(resource)] = stores.LiveStore{Resource: resource, Prefix: asked.Prefix, NewFunc: asked.NewFunc, Store: store}
		}
		return store, destroy, err
	})
}

// all returns the stores, in no order.
func (s *builtinStores) all() []stores.LiveStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.known))
}

// place is where an object is among the others.
type place struct {
	resource schema.GroupResource
	name     types.NamespacedName
	custom   bool
}

// locate reads a key.
func (s *builtinStores) locate(key string) place {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, name, custom := storagekey.Parse(key, func(prefix string) (schema.GroupResource, bool) {
		store, ok := s.known[prefix]
		return store.Resource, ok
	})
	return place{resource, name, custom}
}
