// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspected says what a cache and its informers tell people. Packages cache and informers
// implement its interfaces, and package inspect shows what they return.
package inspected

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/store"
)

// Cache is a cache whose entries are shown. Entry is *informers.MapEntry, which no package of internal may import.
type Cache[Entry any] interface {
	// Name returns the value of the label "cache" in the metrics of the cache.
	Name() string
	// Started reports whether Start was called.
	Started() bool
	// Informers returns the informers that there are, those of a kind after each other. It starts none.
	Informers() []Entry
	// Held calls found for each lease that is held, with the informer that serves it and the scope that the lease is on.
	Held(found func(by Entry, scope fmt.Stringer))
	// Controllers returns the newest requests of each controller with references to what it reads. These are kept from the first call
	// on, until a while after the last.
	Controllers() []Controller
	// Namespaces returns the namespaces that come and go; nil if they are fixed.
	Namespaces() *Namespaces
	// Bounds returns what the cache and its kinds take that have a bound in bytes, as it was seen last.
	Bounds() []metrics.Bounded
	// Go runs a function in a goroutine of a cache that is started: Start waits for it, so it must return when its
	// context ends. It reports false if the cache has ended, and the function is not run.
	Go(func(context.Context)) bool
}

// Namespaces are the namespaces of a cache that come and go.
type Namespaces struct {
	// Count is how many are cached now.
	Count int `json:"count"`
	// Selector selects them by their labels; empty if a method sets them.
	Selector string `json:"selector,omitempty"`
	// Ring are the members that share them, as this replica knows them, in their order. It is nil if there is no ring.
	Ring []string `json:"ring,omitempty"`
	// Member is the name of this replica in the ring.
	Member string `json:"member,omitempty"`
}

// Informer is an informer that is shown. It can be the key of a map. No method asks the API server anything.
type Informer interface {
	Followed
	metrics.Informer
	// State returns where the informer is in its life.
	State() State
	// PendingWrites returns the first writes of the program that the watch has not shown, up to limit, in the order
	// of their keys.
	PendingWrites(limit int) []store.PendingWrite
	// PendingWrite returns the write that lies over an object, if there is one. The namespace of the key is ignored
	// for a cluster-scoped kind.
	PendingWrite(key client.ObjectKey) (store.PendingWrite, bool)
	// Selects names what the selectors of the informer select; empty if they restrict nothing.
	Selects() string
	// Kept returns the fields of the objects that are kept, with commas between; empty for all.
	Kept() string
	// Watch returns a value that is equal for informers that show what one watch brings, and for no others: the
	// figures of such informers are those of the same objects. It can be the key of a map.
	Watch() any
}

// Followed is an informer whose events can be followed.
type Followed interface {
	// Follow calls begun once it follows, and see for each event from then on, until ctx ends or the informer is removed:
	// one call at a time, and none once Follow has returned. It makes no object, so it costs next to nothing beside what the informer does
	// anyway. It returns the cause of the end, and at once an error if the informer is one that the user made and
	// takes no event handler.
	Follow(ctx context.Context, begun func(), see func(Change)) error
	// Received returns how many events have told of objects since the informer was made; zero of one that the user
	// made, because nobody counts its events.
	Received() uint64
}

// Change is an event that an informer has received, without its objects.
type Change struct {
	// Type is watch.Added, watch.Modified or watch.Deleted.
	Type watch.EventType
	Key  client.ObjectKey
	// Revision is the resourceVersion of the write, or zero if it is not known.
	Revision uint64
	// Merged says that the change stands for all that happened to the object between two states,
	// because the informer has listed again, or because the events came faster than they were taken.
	Merged bool
}
