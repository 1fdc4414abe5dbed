// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scoped declares what a cache knows of its leases. Package lease has them.
package scoped

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// Leases are the leases on scopes of a cache, for the cache: it reads and notes writes in their informers too. Package lease
// implements it. It is safe for concurrent use.
type Leases interface {
	// Maps returns the maps of all informers that there are for leases.
	Maps() []*informers.Map
	// Holding returns the maps of those informers that may hold the object of a kind with that key. A key without a name stands
	// for all objects of its namespace, and an empty one for all of the kind.
	Holding(gvk schema.GroupVersionKind, object client.ObjectKey) []*informers.Map
	// Serving returns the map of a lease's informer that can answer a read in place of an informer of m that is not there, or
	// nil: the informer has just what that of m would have of the namespace and the name that are read, and is not known to
	// fail. An empty namespace or name stands for all that m has.
	Serving(key informers.Key, m *informers.Map, read client.ObjectKey) *informers.Map
	// Copies calls found for each copy of a single object with its kind and about its bytes. Measure returns the bytes of an object.
	Copies(measure func(obj any) int, found func(gvk schema.GroupVersionKind, bytes int))
	// Evict evicts what can be had again, of the kinds that of selects, until so many bytes are free: informers that wait for
	// their idle time, those that wait longest first, and then copies, those that were read longest ago first. Evicted is called
	// for each, with "informer" or "copy".
	Evict(of func(schema.GroupVersionKind) bool, bytes int, evicted func(gvk schema.GroupVersionKind, what string, bytes int))
	// Held calls found for each lease that is held, with the informer that serves it and the scope that the lease is on.
	Held(found func(by *informers.MapEntry, scope fmt.Stringer))
	// Controllers returns the newest requests of each controller with references. These are kept from the first call on, until a while
	// after the last.
	Controllers() []inspected.Controller
	// Stop lets nothing begin any more. The maps have stopped.
	Stop()
}
