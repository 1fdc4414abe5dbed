// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Leases are the leases on scopes of a cache, for the cache: it reads and notes writes in their informers too. Package lease
// implements it. It is safe for concurrent use.
type Leases interface {
	// Maps returns the maps of all informers that there are for leases.
	Maps() []*Map
	// Holding returns the maps of those informers that may hold the object of a kind with that key. A key without a name stands
	// for all objects of its namespace, and an empty one for all of the kind.
	Holding(gvk schema.GroupVersionKind, object client.ObjectKey) []*Map
	// Serving returns the map of a lease's informer that can answer a read in place of an informer of m that is not there, or
	// nil: the informer has just what that of m would have of the namespace and the name that are read, and is not known to
	// fail. An empty namespace or name stands for all that m has.
	Serving(key Key, m *Map, read client.ObjectKey) *Map
	// Stop lets nothing begin any more. The maps have stopped.
	Stop()
}
