// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// Getter gets objects of a kind.
type Getter func() rest.Getter

// Kind is one row of the table: what the server knows about one built-in kind. Rows are immutable and shared by all servers in the
// process; what belongs to one server is made by Attach.
//
// It has more than twelve fields on purpose: a row states only what differs from the common case, and the zero value of every other
// field is that common case.
type Kind struct {
	GVK        schema.GroupVersionKind
	Resource   string // plural, as in the URL
	Short      []string
	Categories []string
	Cluster    bool                    // cluster-scoped instead of namespaced
	Alias      schema.GroupVersionKind // a second group and version that serve the same storage

	Rules  Rules
	Hooks  Hooks
	Warn   WarnHooks
	Fields FieldSet
	Table  columns

	// Scale reads and writes the replicas of a kind with a scale subresource.
	Scale *scaling
	// Attach adds what the generic store does not do for this kind. It runs once per server, on the complete store, before
	// any subresource is made: it may set hooks of the store. It returns further subresources by the path below the
	// resource; the path "" replaces the main resource.
	Attach func(*Served) (map[string]rest.Storage, error)
}

// Served is a kind on one server, with what a row's attach function works with.
type Served struct {
	Kind     *Kind
	Store    *Store
	Strategy Strategy // the main resource's
	// Peer returns the store of another kind of the same server by its resource, nil if there is
	// none.
	Peer   func(schema.GroupResource) *Store
	Access *Access // nil if nobody asks the server
}

// Getter returns the store of another kind, for reads.
func (a *Served) Getter(resource schema.GroupResource) Getter {
	return func() rest.Getter { return a.Peer(resource) }
}

// Rules are the switches of the generic strategy. It has more than twelve fields for the same reason as Kind.
type Rules struct {
	Status            bool     // has a status subresource: status is kept apart from the rest on each write
	KeepStatus        bool     // a status in a create request is kept, as for nodes
	Generation        bool     // metadata.generation counts the changes of the desired state
	PutCreates        bool     // PUT of an object that does not exist creates it
	NeedVersion       bool     // PUT without a resourceVersion is refused
	ReturnDeleted     bool     // DELETE answers with the object instead of a Status
	Orphans           bool     // DELETE without a propagation policy orphans the dependents
	OwnsSpec          bool     // nobody owns fields of the spec: it never changes
	AnyMeta           bool     // the metadata of a new object is not checked
	AnyFinalizers     bool     // a finalizer needs no domain in its name
	NoFinalizers      bool     // garbage collection never adds finalizers
	CountsLabels      bool     // a change of labels counts for the generation
	CountsAnnotations bool     // a change of annotations does
	StatusKeeps       []string // the metadata that a write of the status leaves alone, by path; see keepMeta
	Names             nameRule // default: a DNS subdomain
}

// Hooks are the functions of one kind. Each may be nil. A hook owns the objects that it receives for the time of the call
// only, and validate hooks change nothing.
type Hooks struct {
	// Read completes an object that a client sent. With an error it is no object of the kind.
	Read func(obj runtime.Object) error
	// Defaults fills unset fields of a freshly decoded object, from a request or from storage.
	Defaults func(obj runtime.Object)
	// Prepare normalizes before validation, and drops the fields of features that are off. old is nil on create.
	Prepare func(ctx context.Context, obj, old runtime.Object)
	// PrepareStatus does the same for the status subresource.
	PrepareStatus func(ctx context.Context, obj, old runtime.Object)
	// Validate returns what is wrong with obj. old is nil on create.
	Validate func(obj, old runtime.Object) field.ErrorList
	// ValidateRequest does the same where it depends on the request what is wrong.
	ValidateRequest func(ctx context.Context, obj, old runtime.Object) field.ErrorList
	// ValidateStatus returns what is wrong with a status that the status subresource writes.
	ValidateStatus func(obj, old runtime.Object) field.ErrorList
	// Drop takes from a valid object what is not to be stored.
	Drop func(obj runtime.Object)
	// Grace says whether the object is deleted gracefully, and sets options.GracePeriodSeconds if so.
	Grace func(obj runtime.Object, options *metav1.DeleteOptions) bool
	// TTL is the lifetime of an object in storage, in seconds.
	TTL uint64
	// Triggers are the indexes that a watch cache keeps for this kind, by field label.
	Triggers storage.IndexerFuncs
}

// nameRule checks a name, or with prefix set a generateName, and returns what is wrong with it.
type nameRule func(name string, prefix bool) []string

// GroupResource returns the qualified plural.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource}
}

// ListGVK returns the list type's name.
func (k *Kind) ListGVK() schema.GroupVersionKind {
	return k.GVK.GroupVersion().WithKind(k.GVK.Kind + "List")
}

// Typed turns a function over a concrete type into one over runtime.Object. It panics if it is called with another type,
// which a table test rules out for every row.
func Typed[T runtime.Object](f func(T)) func(runtime.Object) {
	return func(obj runtime.Object) { f(MustBe[T](obj)) }
}

// TypedRead does the same for read hooks.
func TypedRead[T runtime.Object](f func(T) error) func(runtime.Object) error {
	return func(obj runtime.Object) error { return f(MustBe[T](obj)) }
}

// TypedPrepare does the same for prepare hooks. old stays nil if it is nil.
func TypedPrepare[T runtime.Object](f func(ctx context.Context, obj, old T)) func(context.Context, runtime.Object, runtime.Object) {
	return func(ctx context.Context, obj, old runtime.Object) { f(ctx, MustBe[T](obj), Optional[T](old)) }
}

// TypedCheck does the same for validate hooks. old stays nil if it is nil.
func TypedCheck[T runtime.Object](f func(obj, old T) field.ErrorList) func(obj, old runtime.Object) field.ErrorList {
	return func(obj, old runtime.Object) field.ErrorList { return f(MustBe[T](obj), Optional[T](old)) }
}

// TypedGrace does the same for grace hooks.
func TypedGrace[T runtime.Object](f func(T, *metav1.DeleteOptions) bool) func(runtime.Object, *metav1.DeleteOptions) bool {
	return func(obj runtime.Object, options *metav1.DeleteOptions) bool { return f(MustBe[T](obj), options) }
}

// Optional converts old to its concrete type; nil becomes the nil pointer.
func Optional[T runtime.Object](old runtime.Object) T {
	if old == nil {
		var none T
		return none
	}
	return MustBe[T](old)
}

// MustBe asserts the concrete type of an object. A failure is a mistake in the table.
func MustBe[T runtime.Object](obj runtime.Object) T {
	t, ok := obj.(T)
	if !ok {
		panic(fmt.Sprintf("builtin: a hook for %T was called with %T", t, obj))
	}
	return t
}

// InAll is the category of the resources that `kubectl get all` shows.
var InAll = []string{"all"}
