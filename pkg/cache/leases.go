// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/informers"
	"github.com/tarn-dev/tarn/pkg/lease"
)

// newLeases returns the registry of the leases on scopes of a cache.
func newLeases(scheme *runtime.Scheme, kinds *layout, idle time.Duration) *lease.Registry {
	return &lease.Registry{
		Kind: func(obj runtime.Object) (schema.GroupVersionKind, error) {
			if list, ok := obj.(client.ObjectList); ok && !isObject(obj) {
				return kindOfItems(list, scheme)
			}
			of, _ := obj.(client.Object)
			return kindOf(of, scheme)
		},
		Namespaced: kinds.scope.namespaced,
		Maps: func(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]*informers.Map, *informers.Map, error) {
			s, err := kinds.scopesOf(ctx, gvk)
			if err != nil {
				return nil, nil, err
			}
			settings, err := s.mapOf(namespace)
			if err != nil { // the configuration does not hold the namespace
				return nil, s.maps[0], nil
			}
			if all, ok := s.byNamespace[AllNamespaces]; ok && all != settings {
				return []*informers.Map{settings, all}, settings, nil
			}
			return []*informers.Map{settings}, settings, nil
		},
		Outside: func(gvk schema.GroupVersionKind, key client.ObjectKey, scope string) error {
			return &OutsideScopeError{GVK: gvk, Key: key, Scope: scope, err: fmt.Errorf("unable to read %s %s: the lease is on %s alone", gvk.Kind, key, scope)}
		},
		IdleTime: idle,
	}
}

// isObject reports whether obj is an object: an unstructured one has the methods of a list too.
func isObject(obj runtime.Object) bool {
	_, ok := obj.(client.Object)
	return ok
}

// Leases returns the registry, which package lease looks for.
func (c *informerCache) Leases() *lease.Registry { return c.leases }

// configured returns the informer maps of the configuration.
func (c *informerCache) configured() []*informers.Map { return c.kinds.maps() }

// maps returns every informer map of the cache, with those of leases.
func (c *informerCache) maps() []*informers.Map {
	return slices.Concat(c.kinds.maps(), c.leases.Informers())
}

// orLeased returns m, or the map of a lease that answers the read of a key or a namespace in its place: m has no informer for
// it, and need not begin one.
func (c *informerCache) orLeased(id informers.Key, m *informers.Map, read client.ObjectKey) *informers.Map {
	if leased := c.leases.Serving(id, m, read); leased != nil && c.view(id, []*informers.Map{m})[0] == nil {
		return leased
	}
	return m
}
