// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// UpstreamCacher puts k8s.io/apiserver's own Cacher in front of a store.
func UpstreamCacher(store generic.StorageDecorator) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs,
		indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		raw, destroyRaw, err := store(config, resourcePrefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
		if err != nil {
			return nil, nil, err
		}
		clock := newEndingClock()
		c, err := upstream.NewCacherFromConfig(upstream.Config{
			Storage:             raw,
			Versioner:           storage.APIObjectVersioner{},
			GroupResource:       config.GroupResource,
			EventsHistoryWindow: config.EventsHistoryWindow,
			ResourcePrefix:      resourcePrefix,
			KeyFunc:             keyFunc,
			NewFunc:             newFunc,
			NewListFunc:         newListFunc,
			GetAttrsFunc:        attributes,
			IndexerFuncs:        triggers,
			Indexers:            indexers,
			Codec:               config.Codec,
			Clock:               clock,
		})
		if err != nil {
			destroyRaw()
			return nil, nil, fmt.Errorf("create a watch cache for %s: %w", config.GroupResource, err)
		}
		delegator := upstream.NewCacheDelegator(c, raw)
		return delegator, sync.OnceFunc(func() {
			delegator.Stop()
			c.Stop()
			clock.end()
			destroyRaw()
		}), nil
	}
}
