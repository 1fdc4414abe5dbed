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

// scopes are the informer maps that cache one kind, each for a namespace; the one of
// AllNamespaces serves all namespaces that have none of their own, and cluster-scoped
// kinds. There may be thousands, so that what a read in one of them needs is not made
// for every read. It is immutable.
type scopes struct {
	maps        []*informers.Map // in the order of the namespaces
	namespaces  []string         // of each of them
	byNamespace map[string]*informers.Map
}

func newScopes(byNamespace map[string]*informers.Map) scopes {
	s := scopes{byNamespace: byNamespace, namespaces: slices.Sorted(maps.Keys(byNamespace))}
	for _, namespace := range s.namespaces {
		s.maps = append(s.maps, byNamespace[namespace])
	}
	return s
}

// serving returns the map that caches namespace. An empty one is that of a key without it:
// the cache of a namespaced kind should not be widened to serve that.
func (s scopes) serving(namespace string) (*informers.Map, error) {
	if m, ok := s.byNamespace[namespace]; ok {
		return m, nil
	}
	if m, ok := s.byNamespace[AllNamespaces]; ok {
		return m, nil
	}
	if namespace == "" {
		return nil, fmt.Errorf("unknown namespace for the cache: the kind is namespaced, and the key has no Namespace; set it, to one of %s", s.describe())
	}
	return nil, fmt.Errorf("unknown namespace for the cache: it is limited to %s; add namespace %q to its DefaultNamespaces or ByObject.Namespaces option",
		s.describe(), namespace)
}

// maxNamed is how many namespaces an error names: enough to know the cache by.
const maxNamed = 5

// describe names the namespaces, or the first of them and how many there are beside.
func (s scopes) describe() string {
	if more := len(s.namespaces) - maxNamed; more > 1 {
		return fmt.Sprintf("%s and %d others", strings.Join(s.namespaces[:maxNamed], ", "), more)
	}
	return strings.Join(s.namespaces, ", ")
}
