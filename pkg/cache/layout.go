// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// layout has the informer maps of a cache, and tells which of them cache a kind. It does not change.
type layout struct {
	scope    *kindScopes
	byGVK    map[schema.GroupVersionKind]*kindMaps
	defaults *kindMaps // of kinds that are not in byGVK
}

// kindMaps has the scopes in which a kind is cached: namespaced if that is what it is, and otherwise cluster. If
// one of the two is empty, the other one is for any kind, and nobody needs to ask which it is.
type kindMaps struct{ namespaced, cluster scopes }

// newLayout makes the informer maps that the options ask for.
func newLayout(opts *Options, shared *informers.Shared) (*layout, error) {
	l := &layout{
		scope: &kindScopes{mapper: shared.Mapper, tuning: shared.Tuning, served: shared.Served},
		byGVK: map[schema.GroupVersionKind]*kindMaps{},
	}
	var defaults kindConfigs
	var err error
	if defaults.cluster, err = clusterDefaults(opts); err != nil {
		return nil, fmt.Errorf("cache options: %w", err)
	}
	if len(opts.DefaultNamespaces) > 0 {
		if defaults.namespaced, err = namespacedDefaults(opts); err != nil {
			return nil, fmt.Errorf("cache option DefaultNamespaces: %w", err)
		}
	}
	l.defaults = newKindMaps(shared, defaults)
	byGVK, err := byObjectConfigs(opts, l.scope)
	if err != nil {
		return nil, err
	}
	for gvk, configs := range byGVK {
		l.byGVK[gvk] = newKindMaps(shared, configs)
	}
	return l, nil
}

func newKindMaps(shared *informers.Shared, configs kindConfigs) *kindMaps {
	namespaced, cluster := meta.RESTScopeNameNamespace, meta.RESTScopeNameRoot
	if len(configs.namespaced) == 0 || len(configs.cluster) == 0 {
		namespaced, cluster = "", ""
	}
	return &kindMaps{namespaced: makeScopes(shared, configs.namespaced, namespaced), cluster: makeScopes(shared, configs.cluster, cluster)}
}

// makeScopes makes the informer map of each scope.
func makeScopes(shared *informers.Shared, configs scopeConfigs, holds meta.RESTScopeName) scopes {
	byNamespace := make(map[string]*informers.Map, len(configs))
	for namespace, c := range configs {
		byNamespace[namespace] = informers.NewMap(informers.Options{
			Shared: shared, Namespace: namespace, Scope: holds,
			Selector:              informers.Selector{Label: c.LabelSelector, Field: c.FieldSelector},
			Transform:             c.Transform,
			UnsafeDisableDeepCopy: ptr.Deref(c.UnsafeDisableDeepCopy, false),
			EnableWatchBookmarks:  ptr.Deref(c.EnableWatchBookmarks, true),
			ResyncPeriod:          ptr.Deref(c.SyncPeriod, defaultSyncPeriod),
		})
	}
	return newScopes(byNamespace)
}

// scopesOf returns the scopes in which a kind is cached. It waits for discovery, if it has to, until ctx ends.
func (l *layout) scopesOf(ctx context.Context, gvk schema.GroupVersionKind) (scopes, error) {
	of, ok := l.byGVK[gvk]
	if !ok {
		of = l.defaults
	}
	switch { // no need to ask the server for the kind's scope
	case len(of.namespaced.maps) == 0:
		return of.cluster, nil
	case len(of.cluster.maps) == 0:
		return of.namespaced, nil
	}
	namespaced, err := l.scope.namespaced(ctx, gvk)
	if err != nil {
		return scopes{}, err
	}
	if !namespaced {
		return of.cluster, nil
	}
	return of.namespaced, nil
}

// maps returns every informer map of the cache.
func (l *layout) maps() []*informers.Map {
	all := slices.Concat(l.defaults.cluster.maps, l.defaults.namespaced.maps)
	for _, of := range l.byGVK {
		all = append(append(all, of.namespaced.maps...), of.cluster.maps...)
	}
	return all
}
