// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/live"
	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/projection"
	"github.com/tarn-dev/tarn/internal/scoped"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// leases are the leases on scopes of a cache, from the first on.
type leases struct {
	made atomic.Pointer[scoped.Leases] // nil before the first
	once sync.Once
	idle time.Duration

	metrics *metrics.Leases
}

// Leases has package lease make the leases of the cache, once: a program that holds none links nothing of it.
func (c *informerCache) Leases(made func() scoped.Leases) scoped.Leases {
	c.leases.once.Do(func() {
		first := made()
		c.leases.made.Store(&first)
	})
	return *c.leases.made.Load()
}

// LeaseIdleTime is for package lease, as what follows.
func (c *informerCache) LeaseIdleTime() time.Duration { return c.leases.idle }

// LeaseMetrics returns the metrics of leases.
func (c *informerCache) LeaseMetrics() *metrics.Leases { return c.leases.metrics }

// Kind returns the kind of an object, or of the items of a list.
func (c *informerCache) Kind(obj runtime.Object) (schema.GroupVersionKind, error) {
	if list, ok := obj.(client.ObjectList); ok && !isObject(obj) {
		return kindOfItems(list, c.scheme)
	}
	of, _ := obj.(client.Object)
	return kindOf(of, c.scheme)
}

// isObject reports whether obj is an object: an unstructured one has the methods of a list too.
func isObject(obj runtime.Object) bool {
	_, ok := obj.(client.Object)
	return ok
}

// ScopeOf returns the scope of a kind; empty if it is optional and not served.
func (c *informerCache) ScopeOf(ctx context.Context, gvk schema.GroupVersionKind) (meta.RESTScopeName, error) {
	switch namespaced, is, err := c.kinds.namespaced.look(ctx, gvk); {
	case err != nil, !is:
		return "", err
	case namespaced:
		return meta.RESTScopeNameNamespace, nil
	}
	return meta.RESTScopeNameRoot, nil
}

// Maps returns the maps of the configuration that may cover scopes in a namespace, and the one whose settings leases there have. A map of
// all namespaces covers none that has settings of its own.
func (c *informerCache) Maps(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]*informers.Map, *informers.Map, error) {
	s, err := c.kinds.scopesOf(ctx, gvk)
	if err != nil {
		return nil, nil, err
	}
	settings, err := s.mapOf(namespace)
	switch {
	case err != nil: // the configuration does not hold the namespace
		return nil, s.settings, nil
	case s.live != nil: // it may leave before the lease is released
		return nil, settings, nil
	}
	return []*informers.Map{settings}, settings, nil
}

// Outside returns the error of a read of what a lease does not hold.
func (c *informerCache) Outside(gvk schema.GroupVersionKind, key client.ObjectKey, scope string) error {
	return &OutsideScopeError{GVK: gvk, Key: key, Scope: scope, err: fmt.Errorf("unable to read %s %s: the lease is on %s alone", gvk.Kind, key, scope)}
}

// ReadLive reads an object from the API server, as the cache would store it. No answer of before serves.
func (c *informerCache) ReadLive(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey, obj client.Object) error {
	s, err := c.kinds.scopesOf(ctx, gvk)
	if err != nil {
		return err
	}
	in, err := s.mapOf(key.Namespace)
	if err != nil {
		in = s.settings
	}
	c.misses.live.Forget(gvk, key)
	tuned := c.tuning(gvk)
	return c.misses.read(ctx, in, live.Request{GVK: gvk, Key: key, Keep: projection.RuleOf(tuned.Whole, tuned.Fields).Apply}, obj)
}

// configured returns the informer maps of the configuration.
func (c *informerCache) configured() []*informers.Map {
	return append(c.kinds.maps(), c.kinds.live.watched()...)
}

// leased returns the informer maps of leases.
func (c *informerCache) leased() []*informers.Map {
	if made := c.leases.made.Load(); made != nil {
		return (*made).Maps()
	}
	return nil
}

// maps returns every informer map of the cache, with those of leases.
func (c *informerCache) maps() []*informers.Map { return slices.Concat(c.configured(), c.leased()) }

// orLeased returns m, or the map of a lease that answers the read of a key or a namespace in its place: m has no informer for
// it, and need not begin one.
func (c *informerCache) orLeased(id informers.Key, m *informers.Map, read client.ObjectKey) *informers.Map {
	made := c.leases.made.Load()
	if made == nil {
		return m
	}
	if leased := (*made).Serving(id, m, read); leased != nil && c.view(id, []*informers.Map{m})[0] == nil {
		return leased
	}
	return m
}
