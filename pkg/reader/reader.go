// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/pkg/index"
)

// Options say what a CacheReader reads. All but Restriction and DisableDeepCopy must be set.
type Options struct {
	// Store holds the objects.
	Store Store
	// GVK is the kind of the objects in the store.
	GVK schema.GroupVersionKind
	// Scope is the scope of the kind.
	Scope meta.RESTScopeName
	// Fields are the declared field indexes.
	Fields *index.Fields
	// Restriction says which objects the store holds, for messages; empty means all.
	Restriction string
	// DisableDeepCopy makes every read share its values with the store.
	DisableDeepCopy bool
}

// CacheReader implements client.Reader for one kind in one scope. It is safe for
// concurrent use.
type CacheReader struct {
	store           Store
	objects         objects
	gvk             schema.GroupVersionKind
	clusterScoped   *atomic.Bool // of all readers that As has made
	fields          *index.Fields
	restriction     string
	disableDeepCopy bool
	reads           *reads // of all readers that As has made; nil counts nothing
}

var _ client.Reader = (*CacheReader)(nil)

// objects makes what reads return of the objects of a store.
type objects interface {
	// CopyInto and Copy make an object that belongs to the caller.
	CopyInto(object.Object, runtime.Object) error
	Copy(object.Object) (runtime.Object, error)
	// ShareInto and Shared make one that must not be changed.
	ShareInto(object.Object, runtime.Object) error
	Shared(object.Object) (any, error)
}

// New returns a reader.
func New(o Options) *CacheReader {
	r := &CacheReader{
		store:           o.Store,
		objects:         o.Store.form(),
		clusterScoped:   &atomic.Bool{},
		gvk:             o.GVK,
		fields:          o.Fields,
		restriction:     o.Restriction,
		disableDeepCopy: o.DisableDeepCopy,
		reads:           &reads{},
	}
	r.SetScope(o.Scope)
	return r
}

// As returns a reader of the same store that shows the objects in another Go type, and has other fields
// declared.
func (r *CacheReader) As(view *object.View, fields *index.Fields) *CacheReader {
	other := *r
	other.fields, other.objects = fields, r.store.form()
	if view != nil {
		other.objects = view
	}
	return &other
}

// Get copies the object with the given key into out. The namespace of the key is
// ignored for a cluster-scoped kind. An object that is not in the store is a
// NotFound API error.
func (r *CacheReader) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	begin := r.reads.get()
	err := r.get(ctx, key, out, opts)
	r.reads.got(begin)
	return err
}

func (r *CacheReader) get(ctx context.Context, key client.ObjectKey, out client.Object, opts []client.GetOption) error {
	o := client.GetOptions{}
	o.ApplyOptions(opts)
	if r.ClusterScoped() {
		key.Namespace = ""
	}

	fresh, err := getFreshness(&o)
	if err != nil {
		return err
	}
	obj, exists, err := r.store.get(ctx, key, fresh)
	if err != nil {
		return fmt.Errorf("reading %s %s from the cache: %w", r.gvk.Kind, key, r.explain(err))
	}
	if !exists {
		return r.notFound(key)
	}
	return r.write(obj, out, o.UnsafeDisableDeepCopy)
}

// ClusterScoped reports whether the kind is cluster-scoped: then reads ignore the namespace of a key.
func (r *CacheReader) ClusterScoped() bool { return r.clusterScoped.Load() }

// SetScope sets the scope of the kind, which may be another one when a kind was not served for a time.
func (r *CacheReader) SetScope(scope meta.RESTScopeName) {
	r.clusterScoped.Store(scope == meta.RESTScopeNameRoot)
}

// notFound returns a NotFound API error, which says why if that can be known.
func (r *CacheReader) notFound(key client.ObjectKey) error {
	// The API server names the resource here; a cache knows the kind.
	err := apierrors.NewNotFound(schema.GroupResource{Group: r.gvk.Group, Resource: r.gvk.Kind}, key.Name)
	switch {
	case key.Name == "":
		err.ErrStatus.Message += ": the key has no Name"
	case key.Namespace == "" && !r.ClusterScoped():
		err.ErrStatus.Message += ": the kind is namespaced, and the key has no Namespace"
	case r.restriction != "":
		err.ErrStatus.Message += " in the cache, which holds only what matches " + r.restriction
	}
	return err
}

// DropPages lets go of what lists with pages to come have read: the store is not used any
// more. Their tokens are answered with 410 from then on.
func (r *CacheReader) DropPages() { r.store.keeper().clear() }

// List is [List] on this reader alone.
func (r *CacheReader) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	return List(ctx, out, &o, r)
}

// shares reports whether a read shares its values with the store, given the
// option of the call.
func (r *CacheReader) shares(call *bool) bool {
	return r.disableDeepCopy || call != nil && *call
}
