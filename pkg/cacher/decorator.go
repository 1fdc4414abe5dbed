// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	toolscache "k8s.io/client-go/tools/cache"
)

// StorageWithCacher returns a decorator that puts a Cacher in front of the storage that below
// makes; nil means generic.UndecoratedStorage. Its destroy function ends the Cacher and then
// the storage, and may be called more than once.
func StorageWithCacher(below generic.StorageDecorator, o Options) generic.StorageDecorator {
	if below == nil {
		below = generic.UndecoratedStorage
	}
	return func(
		config *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs,
		indexers *toolscache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		raw, destroy, err := below(config, resourcePrefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
		if err != nil {
			return nil, nil, err
		}
		c, err := New(Config{
			Storage:             raw,
			GroupResource:       config.GroupResource,
			ResourcePrefix:      resourcePrefix,
			KeyFunc:             keyFunc,
			GetAttrsFunc:        attributes,
			IndexerFuncs:        triggers,
			Indexers:            indexers,
			NewFunc:             newFunc,
			NewListFunc:         newListFunc,
			Codec:               config.Codec,
			EventsHistoryWindow: config.EventsHistoryWindow,
			Options:             o,
		})
		if err != nil {
			destroy()
			return nil, nil, fmt.Errorf("create a cacher: %w", err)
		}
		return c, sync.OnceFunc(func() {
			c.Stop()
			destroy()
		}), nil
	}
}
