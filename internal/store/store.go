// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Store is what a reader reads: an [Engine] or an [Indexer].
type Store interface {
	// Objects makes what reads return of the objects of the store.
	Objects() Objects
	// Get returns the object under a key, and whether there is one.
	Get(ctx context.Context, key client.ObjectKey, at Freshness) (object.Object, bool, error)
	// Find returns the objects that match, in the order of their keys.
	Find(ctx context.Context, r *Request) (Answer, error)
	// Plan says how find would go about it.
	Plan(r *Request) Plan
	// Keeper keeps the states of lists with pages to come.
	Keeper() keeper
	// Reads counts the reads of the store, in whatever Go type they show its objects.
	Reads() *Reads
	// ClusterScoped reports whether the kind is cluster-scoped: then reads ignore the namespace of a key.
	ClusterScoped() bool
	// As returns the store with its objects in another Go type. A nil view stands for that of the store.
	As(view *object.View) Store
	// SetScope sets the scope of the kind, which may be another one when a kind was not served for a time.
	SetScope(scope meta.RESTScopeName)
	// DropPages lets go of what lists with pages to come have read: the store is not used any more.
	// Their tokens are answered with 410 from then on.
	DropPages()
	// DropShared lets go of the decoded objects that reads without copies share: later ones decode again.
	DropShared()
	// PendingWrites returns the first writes that the watch has not shown, up to limit, in the order of their keys.
	PendingWrites(limit int) []PendingWrite
	// PendingWrite returns the write that lies over an object, if there is one.
	PendingWrite(key client.ObjectKey) (PendingWrite, bool)
	// Stats returns the figures of now. Bytes are estimated from some hundred objects, anew when a
	// quarter of the store has changed.
	Stats() Stats
}

// Objects makes what reads return of the objects of a store.
type Objects interface {
	// CopyInto and Copy make an object that belongs to the caller.
	CopyInto(object.Object, runtime.Object) error
	Copy(object.Object) (runtime.Object, error)
	// ShareInto and Shared make an object that must not be changed.
	ShareInto(object.Object, runtime.Object) error
	Shared(object.Object) (any, error)
}

// common is what both stores have.
type common struct {
	clusterScoped atomic.Bool
	reads         Reads
}

// Reads implements Store.
func (c *common) Reads() *Reads { return &c.reads }

// ClusterScoped implements Store.
func (c *common) ClusterScoped() bool { return c.clusterScoped.Load() }

// SetScope implements Store.
func (c *common) SetScope(scope meta.RESTScopeName) {
	c.clusterScoped.Store(scope == meta.RESTScopeNameRoot)
}

// keyOf returns the key of an object in the store. The namespace is ignored for a cluster-scoped kind.
func (c *common) keyOf(key client.ObjectKey) string {
	if c.ClusterScoped() {
		key.Namespace = ""
	}
	return object.Key(key.Namespace, key.Name)
}

// State is what a list has read of a store.
type State interface {
	// Keep keeps the state for the pages to come, and returns its name.
	Keep() uint64
}

// keeper is what a list needs of the keptStates of a store.
type keeper interface {
	End(name uint64)
	Drop(name uint64)
	clear()
}

// Request says which objects are wanted.
type Request struct {
	Namespace string // empty means all
	Key       string // of the one object that can match; empty if there may be several
	Labels    labels.Selector
	Fields    postings.Selection
	Page      Page
	Fresh     Freshness // of the first page
}

// Freshness says how new the state of a read must be. The zero value is for the state of the store,
// with pending writes.
type Freshness struct {
	Revision uint64 // that the watch must have reached
	Watched  bool   // without what the watch has not shown
}

// counted reports whether the answer says how many objects follow. Like an API server, a store
// counts them only if no selector restricts the list.
func (q *Request) counted() bool { return Unrestricted(q.Labels) && q.Fields.Everything() }

// everything reports that all objects are wanted, on one page.
func (q *Request) everything() bool {
	return q.counted() && q.Namespace == "" && q.Key == "" && q.Page == Page{}
}

// Unrestricted reports whether a selector selects everything.
func Unrestricted(selector labels.Selector) bool { return selector == nil || selector.Empty() }

// Answer is the answer to a request.
type Answer struct {
	Items []Item
	// All, if set, is the state whose objects are all wanted; there are no items then, which would
	// be a copy of its tree.
	All      *watchcache.Snapshot[object.Object]
	Rest     int64  // objects that match, behind the items; counted only if the request is
	Revision string // up to which the answer is complete
	State    State  // what was read; it may be nil if the request has no limit
	Way      Way
}

// Item is an object of a store and its key, as [object.Key] makes it.
type Item = watchcache.Item[object.Object]

// Page says which part of a list a call reads.
type Page struct {
	Limit int64  // the number of objects in it; 0 is all there are
	State uint64 // the state that the page before was read from; 0 for the first
	From  string // the first key that may be in it, behind the page before
	Look  bool   // it is for people who look, see Look of package reader
}
