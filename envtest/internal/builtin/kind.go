// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// kind is one row of the table: everything the server knows about one built-in kind. Rows are immutable and shared by all
// servers in the process; what belongs to one server is made by attach.
//
// It has more than twelve fields on purpose: a row states only what differs from the common case, and the zero value of every other
// field is that common case.
type kind struct {
	gvk        schema.GroupVersionKind
	resource   string // plural, as in the URL
	singular   string // default: the kind in lower case
	short      []string
	categories []string
	cluster    bool                    // cluster-scoped instead of namespaced
	alias      schema.GroupVersionKind // a second group and version that serve the same storage

	rules  rules
	hooks  hooks
	warn   warnHooks
	fields fieldSet
	table  columns

	// scale reads and writes the replicas of a kind with a scale subresource.
	scale *scaling
	// attach adds what the generic store does not do for this kind. It runs once per server, on the complete store, before
	// any subresource is made: it may set hooks of the store. It returns further subresources by the path below the
	// resource; the path "" replaces the main resource.
	attach func(*attachment) (map[string]rest.Storage, error)
}

// attachment is what a row's attach function works with.
type attachment struct {
	kind     *kind
	store    *genericregistry.Store
	strategy strategy // the main resource's
	// peer returns the store of another kind of the same server by its resource, nil if there is
	// none.
	peer   func(schema.GroupResource) *genericregistry.Store
	access *Access // nil if nobody asks the server
}

// getter returns the store of another kind, for reads.
func (a *attachment) getter(resource schema.GroupResource) getter {
	return func() rest.Getter { return a.peer(resource) }
}

// rules are the switches of the generic strategy. It has more than twelve fields for the same reason as kind.
type rules struct {
	status            bool     // has a status subresource: status is kept apart from the rest on each write
	keepStatus        bool     // a status in a create request is kept, as for nodes
	generation        bool     // metadata.generation counts the changes of the desired state
	putCreates        bool     // PUT of an object that does not exist creates it
	needVersion       bool     // PUT without a resourceVersion is refused
	returnDeleted     bool     // DELETE answers with the object instead of a Status
	orphans           bool     // DELETE without a propagation policy orphans the dependents
	ownsSpec          bool     // nobody owns fields of the spec: it never changes
	anyMeta           bool     // the metadata of a new object is not checked
	anyFinalizers     bool     // a finalizer needs no domain in its name
	noFinalizers      bool     // garbage collection never adds finalizers
	countsLabels      bool     // a change of labels counts for the generation
	countsAnnotations bool     // a change of annotations does
	statusKeeps       []string // the metadata that a write of the status leaves alone, by path; see keepMeta
	names             nameRule // default: a DNS subdomain
}

// hooks are the functions of one kind. Each may be nil. A hook owns the objects that it receives for the time of the call
// only, and validate hooks change nothing.
type hooks struct {
	// defaults fills unset fields of a freshly decoded object, from a request or from storage.
	defaults func(obj runtime.Object)
	// prepare normalizes before validation. old is nil on create.
	prepare func(ctx context.Context, obj, old runtime.Object)
	// prepareStatus does the same for the status subresource.
	prepareStatus func(ctx context.Context, obj, old runtime.Object)
	// validate returns what is wrong with obj. old is nil on create.
	validate func(obj, old runtime.Object) field.ErrorList
	// validateRequest does the same where it depends on the request what is wrong.
	validateRequest func(ctx context.Context, obj, old runtime.Object) field.ErrorList
	// validateStatus returns what is wrong with a status that the status subresource writes.
	validateStatus func(obj, old runtime.Object) field.ErrorList
	// drop takes from a valid object what is not to be stored.
	drop func(obj runtime.Object)
	// grace says whether the object is deleted gracefully, and sets options.GracePeriodSeconds if so.
	grace func(obj runtime.Object, options *metav1.DeleteOptions) bool
	// ttl is the lifetime of an object in storage, in seconds.
	ttl uint64
	// triggers are the indexes that a watch cache keeps for this kind, by field label.
	triggers storage.IndexerFuncs
}

// nameRule checks a name, or with prefix set a generateName, and returns what is wrong with it.
type nameRule func(name string, prefix bool) []string

// groupResource returns the qualified plural.
func (k *kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.gvk.Group, Resource: k.resource}
}

// listGVK returns the list type's name.
func (k *kind) listGVK() schema.GroupVersionKind {
	return k.gvk.GroupVersion().WithKind(k.gvk.Kind + "List")
}

// typed1 turns a function over a concrete type into one over runtime.Object. It panics if it is called with another type,
// which a table test rules out for every row.
func typed1[T runtime.Object](f func(T)) func(runtime.Object) {
	return func(obj runtime.Object) { f(mustBe[T](obj)) }
}

// typedPrepare does the same for prepare hooks. old stays nil if it is nil.
func typedPrepare[T runtime.Object](f func(ctx context.Context, obj, old T)) func(context.Context, runtime.Object, runtime.Object) {
	return func(ctx context.Context, obj, old runtime.Object) { f(ctx, mustBe[T](obj), optional[T](old)) }
}

// typedCheck does the same for validate hooks. old stays nil if it is nil.
func typedCheck[T runtime.Object](f func(obj, old T) field.ErrorList) func(obj, old runtime.Object) field.ErrorList {
	return func(obj, old runtime.Object) field.ErrorList { return f(mustBe[T](obj), optional[T](old)) }
}

// typedGrace does the same for grace hooks.
func typedGrace[T runtime.Object](f func(T, *metav1.DeleteOptions) bool) func(runtime.Object, *metav1.DeleteOptions) bool {
	return func(obj runtime.Object, options *metav1.DeleteOptions) bool { return f(mustBe[T](obj), options) }
}

// optional converts old to its concrete type; nil becomes the nil pointer.
func optional[T runtime.Object](old runtime.Object) T {
	if old == nil {
		var none T
		return none
	}
	return mustBe[T](old)
}

// mustBe asserts the concrete type of an object. A failure is a mistake in the table.
func mustBe[T runtime.Object](obj runtime.Object) T {
	t, ok := obj.(T)
	if !ok {
		panic(fmt.Sprintf("builtin: a hook for %T was called with %T", t, obj))
	}
	return t
}
