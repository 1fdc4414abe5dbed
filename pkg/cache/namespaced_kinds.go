// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/resolver"
	"github.com/tarn-dev/tarn/internal/served"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// namespacedKinds tells which kinds are namespaced. It is safe for concurrent use.
type namespacedKinds struct {
	mapper   meta.RESTMapper
	tuning   func(schema.GroupVersionKind) TuningByObject
	served   *served.Follower // nil if no kind is optional
	resolver resolver.Resolver

	// known has what the mapper said of each kind that was asked for, as a bool, until the informers of the kind are removed. So
	// reads of a cached kind do not wait for a mapper that asks for another kind.
	known sync.Map
}

// has reports whether a kind is namespaced. An optional kind that is not served is taken for a namespaced one,
// without a request for each read. The error is made by informers.Key.MappingError.
func (k *namespacedKinds) has(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	namespaced, _, err := k.look(ctx, gvk)
	return namespaced, err
}

// look is has, and reports whether the kind is served, so that this is no guess.
func (k *namespacedKinds) look(ctx context.Context, gvk schema.GroupVersionKind) (namespaced, is bool, err error) {
	varies := k.vary(gvk)
	if varies {
		if scope, is, followed := k.served.ScopeOf(gvk); followed {
			return scope == meta.RESTScopeNameNamespace, is, nil
		}
	}
	namespaced, err = k.ask(ctx, gvk)
	switch {
	case err == nil:
		return namespaced, true, nil
	case varies && resolver.MayCome(err):
		return true, false, nil
	}
	return false, false, informers.Key{GroupVersionKind: gvk}.MappingError(err)
}

// vary reports whether a kind is optional: it may come with another scope.
func (k *namespacedKinds) vary(gvk schema.GroupVersionKind) bool {
	return k.served != nil && ptr.Deref(k.tuning(gvk).Optional, false)
}

// forget has the mapper asked again for a kind.
func (k *namespacedKinds) forget(gvk schema.GroupVersionKind) { k.known.Delete(gvk) }

// ask asks the mapper, which knows no context: the error wraps resolver.ErrGaveUp if ctx ends first.
func (k *namespacedKinds) ask(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	if namespaced, ok := k.known.Load(gvk); ok {
		return namespaced.(bool), nil
	}
	mapping, err := k.resolver.Mapping(ctx, k.mapper, gvk)
	if err != nil {
		return false, err
	}
	namespaced := mapping.Scope.Name() != meta.RESTScopeNameRoot
	k.known.Store(gvk, namespaced)
	return namespaced, nil
}
