// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/index"
)

// Store is what a reader reads: an [EngineStore] or an [IndexerStore].
type Store interface {
	// form gives back what the objects of the store were made from.
	form() *object.Form
	get(key client.ObjectKey) (object.Object, bool, error)
	// find returns the objects that match, in the order of their keys.
	find(*request) (answer, error)
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
	fields    index.Selection
	page      page
}

// counted reports that the caller is to be told how many objects follow: like an API
// server, a store counts only what no selector restricts.
func (q *request) counted() bool { return unrestricted(q.labels) && q.fields.Everything() }

func unrestricted(selector labels.Selector) bool { return selector == nil || selector.Empty() }

// answer is the answer to a request.
type answer struct {
	items    []item
	rest     int64  // objects that match, behind the items; counted only if the request is
	revision string // up to which the answer is complete
	state    state  // what was read; it may be nil if the request has no limit
}

// item is an object of a store and its key, see [object.Key].
type item = watchcache.Item[object.Object]
