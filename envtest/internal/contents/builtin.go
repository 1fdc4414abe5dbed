// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

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
			s.known[stores.ResourcePrefix(resource)] = stores.LiveStore{Resource: resource, Prefix: asked.Prefix, NewFunc: asked.NewFunc, Store: store}
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

// locate reads a key.
func (s *builtinStores) locate(key string) place {
	parts := strings.Split(strings.TrimPrefix(key, stores.RegistryPrefix+"/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 1
	store, ok := s.known[parts[0]]
	if !ok {
		n = min(2, len(parts))
		store, ok = s.known[strings.Join(parts[:n], "/")]
	}
	at := place{resource: store.Resource, custom: !ok}
	if !ok {
		at.resource = schema.GroupResource{Group: parts[0], Resource: parts[n-1]}
	}
	switch parts = parts[n:]; len(parts) {
	case 0:
	case 1:
		at.name.Name = parts[0]
	default:
		at.name.Namespace, at.name.Name = parts[0], strings.Join(parts[1:], "/")
	}
	return at
}
