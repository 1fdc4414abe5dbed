// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Store is what a reader reads: an [EngineStore] or an [IndexerStore].
type Store interface {
	// form returns the form in which the objects of the store are kept.
	form() *object.Form
	// get returns the object under a key, and whether there is one.
	get(ctx context.Context, key client.ObjectKey, at freshness) (object.Object, bool, error)
	// find returns the objects that match, in the order of their keys.
	find(ctx context.Context, r *request) (answer, error)
	// plan says how find would go about it.
	plan(r *request) Plan
	// keeper keeps the states of lists with pages to come.
	keeper() keeper
}

// state is what a list has read of a store.
type state interface {
	// keep keeps the state for the pages to come, and returns its name.
	keep() uint64
}

// keeper is what a list needs of the keptStates of a store.
type keeper interface {
	end(name uint64)
	drop(name uint64)
	clear()
}

// request says which objects are wanted.
type request struct {
	namespace string // empty means all
	key       string // of the one object that can match; empty if there may be several
	labels    labels.Selector
	fields    postings.Selection
	page      page
	fresh     freshness // of the first page
}

// freshness says how new the state must be that is read. The zero value is for what the store has,
// with what the program has written.
type freshness struct {
	revision uint64 // that the watch must have reached
	watched  bool   // without what the watch has not shown
}

// counted reports whether the answer says how many objects follow. Like an API server, a store
// counts them only if no selector restricts the list.
func (q *request) counted() bool { return unrestricted(q.labels) && q.fields.Everything() }

// everything reports that all objects are wanted, on one page.
func (q *request) everything() bool {
	return q.counted() && q.namespace == "" && q.key == "" && q.page == page{}
}

func unrestricted(selector labels.Selector) bool { return selector == nil || selector.Empty() }

// answer is the answer to a request.
type answer struct {
	items []item
	// all, if set, is the state whose objects are all wanted; there are no items then, which would
	// be a copy of its tree.
	all      *watchcache.Snapshot[object.Object]
	rest     int64  // objects that match, behind the items; counted only if the request is
	revision string // up to which the answer is complete
	state    state  // what was read; it may be nil if the request has no limit
	way      way
}

// item is an object of a store and its key, as [object.Key] makes it.
type item = watchcache.Item[object.Object]
