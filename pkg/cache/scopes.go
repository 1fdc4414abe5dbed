// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// scopes are the informer maps that cache one kind. Each is for one namespace, and the one for
// AllNamespaces serves all other namespaces and cluster-scoped kinds. There may be thousands of
// maps, so the lists of them are made once and not for each read. A scopes value never changes.
type scopes struct {
	maps        []*informers.Map // in the order of the namespaces
	namespaces  []string         // of the maps
	byNamespace map[string]*informers.Map
	settings    *informers.Map // which others have that are for no map
	live        *liveScopes    // whose value this is; nil if the namespaces are fixed
	left        []string       // namespaces that were inside, the newest first
}

func newScopes(byNamespace map[string]*informers.Map) scopes {
	s := scopes{byNamespace: byNamespace, namespaces: slices.Sorted(maps.Keys(byNamespace))}
	for _, namespace := range s.namespaces {
		s.maps = append(s.maps, byNamespace[namespace])
	}
	if len(s.maps) > 0 {
		s.settings = s.maps[0]
	}
	return s
}

// mapOf returns the map that caches namespace. If no map caches all namespaces, an empty
// namespace is an error, because the key of the caller lacks its namespace. The error does not
// advise to cache more namespaces, which would be wrong for a namespaced kind.
func (s scopes) mapOf(namespace string) (*informers.Map, error) {
	if m, ok := s.byNamespace[namespace]; ok {
		return m, nil
	}
	if m, ok := s.byNamespace[AllNamespaces]; ok {
		return m, nil
	}
	if namespace == "" {
		return nil, fmt.Errorf("unknown namespace for the cache: the kind is namespaced, and the key has no Namespace; set it, to one of %s", s.describe())
	}
	switch {
	case s.live == nil:
		return nil, fmt.Errorf("unknown namespace for the cache: it is limited to %s; add namespace %q to its DefaultNamespaces or ByObject.Namespaces option",
			s.describe(), namespace)
	case slices.Contains(s.left, namespace):
		return nil, fmt.Errorf("unknown namespace for the cache: it does not hold namespace %q any more; it is limited to %s now", namespace, s.describe())
	}
	return nil, fmt.Errorf("unknown namespace for the cache: it is limited to %s now; set namespace %q as well, or let its labels match", s.describe(), namespace)
}

// outside returns the error of a read that mapOf has refused.
func (s scopes) outside(gvk schema.GroupVersionKind, key client.ObjectKey, err error) error {
	return &OutsideScopeError{GVK: gvk, Key: key, Scope: "the namespaces " + s.describe(), err: err}
}

// hasLeft reports whether the namespace has left the cache since, or any if it is empty.
func (s scopes) hasLeft(namespace string) bool {
	if m, ok := s.byNamespace[namespace]; ok {
		return m.HasLeft()
	}
	return namespace == "" && slices.ContainsFunc(s.maps, (*informers.Map).HasLeft)
}

// maxNamed is the number of namespaces that an error names, enough to recognize the cache.
const maxNamed = 5

// describe returns the names of the namespaces, or the first of them and the number of the others.
func (s scopes) describe() string {
	if len(s.namespaces) == 0 {
		return "no namespace"
	}
	if more := len(s.namespaces) - maxNamed; more > 1 {
		return fmt.Sprintf("%s and %d others", strings.Join(s.namespaces[:maxNamed], ", "), more)
	}
	return strings.Join(s.namespaces, ", ")
}
