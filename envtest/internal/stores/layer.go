// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Decorate puts a layer around the stores of a resource, which next makes.
type Decorate func(resource schema.GroupResource, next generic.StorageDecorator) generic.StorageDecorator

// Asked is what a generic.StorageDecorator is called with.
type Asked struct {
	Config               *storagebackend.ConfigForResource
	Prefix               string // of the resource
	KeyFunc              func(runtime.Object) (string, error)
	NewFunc, NewListFunc func() runtime.Object
	Attributes           storage.AttrFunc
	Triggers             storage.IndexerFuncs
	Indexers             *cache.Indexers
}

// Next makes the store below a layer, and the function that destroys it.
type Next func() (storage.Interface, factory.DestroyFunc, error)

// Around returns a decorator whose store is what wrap makes. wrap calls next once at most; what next returns is wrap's own,
// also if wrap fails afterwards.
func Around(
	below generic.StorageDecorator, wrap func(asked Asked, next Next) (storage.Interface, factory.DestroyFunc, error),
) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		asked := Asked{config, prefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers}
		return wrap(asked, func() (storage.Interface, factory.DestroyFunc, error) {
			return below(config, prefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
		})
	}
}

// bottom returns the decorator whose store make makes, with nothing below.
func bottom(make func(Asked) (storage.Interface, factory.DestroyFunc, error)) generic.StorageDecorator {
	return Around(nil, func(asked Asked, _ Next) (storage.Interface, factory.DestroyFunc, error) {
		return make(asked)
	})
}

// stacked puts layers around a store, the first one nearest to it.
func stacked(resource schema.GroupResource, store generic.StorageDecorator, layers ...Decorate) generic.StorageDecorator {
	for _, layer := range layers {
		store = layer(resource, store)
	}
	return store
}
