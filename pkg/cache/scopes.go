// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// scopes are the informer maps that cache one kind, by namespace; the one under
// AllNamespaces serves all namespaces that have none of their own, and
// cluster-scoped kinds. It is immutable.
type scopes map[string]*informers.Map

// all returns every map, in the order of the namespaces.
func (s scopes) all() []*informers.Map {
	inOrder := make([]*informers.Map, 0, len(s))
	for _, namespace := range slices.Sorted(maps.Keys(s)) {
		inOrder = append(inOrder, s[namespace])
	}
	return inOrder
}

// serving returns the map that caches namespace.
func (s scopes) serving(namespace string) (*informers.Map, error) {
	if m, ok := s[namespace]; ok {
		return m, nil
	}
	if m, ok := s[AllNamespaces]; ok {
		return m, nil
	}
	return nil, fmt.Errorf("unknown namespace for the cache: it is limited to %s; add namespace %q to its DefaultNamespaces or ByObject.Namespaces option",
		strings.Join(slices.Sorted(maps.Keys(s)), ", "), namespace)
}
