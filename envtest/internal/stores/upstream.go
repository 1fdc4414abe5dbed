// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"fmt"
	"sync"

	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
)

// UpstreamCacher puts k8s.io/apiserver's own Cacher in front of a store.
func UpstreamCacher(store generic.StorageDecorator) generic.StorageDecorator {
	return Around(store, func(asked Asked, next Next) (storage.Interface, factory.DestroyFunc, error) {
		raw, destroyRaw, err := next()
		if err != nil {
			return nil, nil, err
		}
		clock := newEndingClock()
		c, err := upstream.NewCacherFromConfig(upstream.Config{
			Storage:             raw,
			Versioner:           storage.APIObjectVersioner{},
			GroupResource:       asked.Config.GroupResource,
			EventsHistoryWindow: asked.Config.EventsHistoryWindow,
			ResourcePrefix:      asked.Prefix,
			KeyFunc:             asked.KeyFunc,
			NewFunc:             asked.NewFunc,
			NewListFunc:         asked.NewListFunc,
			GetAttrsFunc:        asked.Attributes,
			IndexerFuncs:        asked.Triggers,
			Indexers:            asked.Indexers,
			Codec:               asked.Config.Codec,
			Clock:               clock,
		})
		if err != nil {
			destroyRaw()
			return nil, nil, fmt.Errorf("create a watch cache for %s: %w", asked.Config.GroupResource, err)
		}
		delegator := upstream.NewCacheDelegator(c, raw)
		return delegator, sync.OnceFunc(func() {
			delegator.Stop()
			c.Stop()
			clock.end()
			destroyRaw()
		}), nil
	})
}
