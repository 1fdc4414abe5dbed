// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// layout has the informer maps of a cache, and tells which of them cache a kind. It does not change, but for the scopes that are live.
type layout struct {
	namespaced *namespacedKinds
	byGVK      map[schema.GroupVersionKind]*kindMaps
	defaults   *kindMaps       // of kinds that are not in byGVK
	live       *liveNamespaces // nil if the namespaces are fixed
}

// kindMaps has the scopes in which a kind is cached: namespaced, or live in its place, if that is what it is, and otherwise cluster. If
// there is one of the two, it is for any kind, and nobody needs to ask which it is.
type kindMaps struct {
	namespaced, cluster scopes
	live                *liveScopes // nil if the namespaces are fixed
}

// newLayout makes the informer maps that the options ask for. With live the namespaces of DefaultNamespaces are those of the start.
func newLayout(opts *Options, shared *informers.Shared, live *liveNamespaces) (*layout, error) {
	l := &layout{
		namespaced: &namespacedKinds{mapper: shared.Mapper, tuning: shared.Tuning, served: shared.Served},
		byGVK:      map[schema.GroupVersionKind]*kindMaps{},
		live:       live,
	}
	defaults := kindConfigs{live: live != nil}
	var err error
	if defaults.cluster, err = clusterDefaults(opts); err != nil {
		return nil, fmt.Errorf("cache options: %w", err)
	}
	if len(opts.DefaultNamespaces) > 0 {
		if defaults.namespaced, err = namespacedDefaults(opts); err != nil {
			return nil, fmt.Errorf("cache option DefaultNamespaces: %w", err)
		}
	}
	l.defaults = l.newKindMaps(shared, defaults, defaultConfig(opts))
	byGVK, err := byObjectConfigs(opts, l.namespaced, live != nil)
	if err != nil {
		return nil, err
	}
	for gvk, configs := range byGVK {
		l.byGVK[gvk] = l.newKindMaps(shared, configs.kindConfigs, configs.all)
	}
	if live != nil {
		return l, live.begin(l.defaults.cluster.maps[0], slices.Sorted(maps.Keys(opts.DefaultNamespaces)))
	}
	return l, nil
}

func (l *layout) newKindMaps(shared *informers.Shared, configs kindConfigs, all Config) *kindMaps {
	namespaced, cluster := meta.RESTScopeNameNamespace, meta.RESTScopeNameRoot
	if len(configs.namespaced) == 0 && !configs.live || len(configs.cluster) == 0 {
		namespaced, cluster = "", ""
	}
	of := &kindMaps{cluster: makeScopes(shared, configs.cluster, cluster)}
	if configs.live {
		of.live = l.live.add(shared, configs.namespaced, all, namespaced)
	} else {
		of.namespaced = makeScopes(shared, configs.namespaced, namespaced)
	}
	return of
}

// makeScopes makes the informer map of each scope.
func makeScopes(shared *informers.Shared, configs scopeConfigs, holds meta.RESTScopeName) scopes {
	byNamespace := make(map[string]*informers.Map, len(configs))
	for namespace, c := range configs {
		byNamespace[namespace] = informers.NewMap(mapOptions(shared, namespace, c, holds))
	}
	return newScopes(byNamespace)
}

// mapOptions returns the options of the informer map of a scope.
func mapOptions(shared *informers.Shared, namespace string, c Config, holds meta.RESTScopeName) informers.Options {
	return informers.Options{
		Shared: shared, Namespace: namespace, Scope: holds,
		Selector:              informers.Selector{Label: c.LabelSelector, Field: c.FieldSelector},
		Transform:             c.Transform,
		UnsafeDisableDeepCopy: ptr.Deref(c.UnsafeDisableDeepCopy, false),
		EnableWatchBookmarks:  ptr.Deref(c.EnableWatchBookmarks, true),
		ResyncPeriod:          ptr.Deref(c.SyncPeriod, defaultSyncPeriod),
	}
}

// scopesOf returns the scopes in which a kind is cached. It waits for discovery, if it has to, until ctx ends.
func (l *layout) scopesOf(ctx context.Context, gvk schema.GroupVersionKind) (scopes, error) {
	of, ok := l.byGVK[gvk]
	if !ok {
		of = l.defaults
	}
	switch { // no need to ask the server for the kind's scope
	case len(of.namespaced.maps) == 0 && of.live == nil:
		return of.cluster, nil
	case len(of.cluster.maps) == 0:
		return of.inNamespaces(), nil
	}
	namespaced, err := l.namespaced.has(ctx, gvk)
	if err != nil {
		return scopes{}, err
	}
	if !namespaced {
		return of.cluster, nil
	}
	return of.inNamespaces(), nil
}

// inNamespaces returns the scopes of now of a namespaced kind.
func (of *kindMaps) inNamespaces() scopes {
	if of.live != nil {
		return *of.live.now.Load()
	}
	return of.namespaced
}

// maps returns every informer map of the cache.
func (l *layout) maps() []*informers.Map { return append(l.fixed(), l.live.maps()...) }

// fixed returns the informer maps that the cache starts, and has until it ends.
func (l *layout) fixed() []*informers.Map {
	all := slices.Concat(l.defaults.cluster.maps, l.defaults.namespaced.maps)
	for _, of := range l.byGVK {
		all = append(append(all, of.namespaced.maps...), of.cluster.maps...)
	}
	return append(all, l.live.helpers()...)
}

// waitForCacheSync waits until all maps have synced, also those that come meanwhile. It returns false if ctx ends first.
func (l *layout) waitForCacheSync(ctx context.Context) bool {
	if l.live != nil && !l.live.selected.WaitForCacheSync(ctx) {
		return false
	}
	for synced := map[*informers.Map]bool{}; ; {
		all := slices.DeleteFunc(l.maps(), func(m *informers.Map) bool { return synced[m] })
		if len(all) == 0 {
			return true
		}
		for _, m := range all {
			if !m.WaitForCacheSync(ctx) {
				return false
			}
			synced[m] = true
		}
	}
}

// started reports whether Start was called.
func (l *layout) started() bool { return l.defaults.cluster.maps[0].Started() }
