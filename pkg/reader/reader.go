// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/index"
)

// Options say what a CacheReader reads. All but DisableDeepCopy must be set.
type Options struct {
	// Indexer is the store; it has a namespace index (toolscache.NamespaceIndex)
	// unless the kind is cluster-scoped.
	Indexer toolscache.Indexer
	// GVK is the kind of the objects in the store.
	GVK schema.GroupVersionKind
	// Scope is the scope of the kind.
	Scope meta.RESTScopeName
	// Fields are the declared field indexes.
	Fields *index.Fields
	// DisableDeepCopy makes every read share its values with the store.
	DisableDeepCopy bool
}

// CacheReader implements client.Reader for one kind in one scope. It is safe for
// concurrent use.
type CacheReader struct {
	indexer         toolscache.Indexer
	gvk             schema.GroupVersionKind
	scope           meta.RESTScopeName
	fields          *index.Fields
	disableDeepCopy bool
}

var _ client.Reader = (*CacheReader)(nil)

// New returns a reader.
func New(o Options) *CacheReader {
	return &CacheReader{
		indexer:         o.Indexer,
		gvk:             o.GVK,
		scope:           o.Scope,
		fields:          o.Fields,
		disableDeepCopy: o.DisableDeepCopy,
	}
}

// Get copies the object with the given key into out. The namespace of the key is
// ignored for a cluster-scoped kind. An object that is not in the store is a
// NotFound API error.
func (r *CacheReader) Get(_ context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	o := client.GetOptions{}
	o.ApplyOptions(opts)
	if r.scope == meta.RESTScopeNameRoot {
		key.Namespace = ""
	}

	found, exists, err := r.indexer.GetByKey(storeKey(key))
	if err != nil {
		return fmt.Errorf("reading %s %s from the cache: %w", r.gvk.Kind, key, err)
	}
	if !exists {
		// The API server names the resource here; a cache knows the kind.
		return apierrors.NewNotFound(schema.GroupResource{Group: r.gvk.Group, Resource: r.gvk.Kind}, key.Name)
	}
	obj, ok := found.(client.Object)
	if !ok {
		return fmt.Errorf("the cache of %s holds a %T for %s, which is no client.Object; check the transform of this kind", r.gvk.Kind, found, key)
	}
	if have, want := reflect.TypeOf(obj), reflect.TypeOf(out); have != want {
		return fmt.Errorf("cache had type %s, but %s was asked for", have, want)
	}

	if r.shares(o.UnsafeDisableDeepCopy) {
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(obj).Elem())
		return nil
	}
	copierFor(reflect.TypeOf(obj)).copyInto(obj, reflect.ValueOf(out))
	out.GetObjectKind().SetGroupVersionKind(r.gvk)
	return nil
}

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

// storeKey is client-go's MetaNamespaceKeyFunc for a key.
func storeKey(key client.ObjectKey) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}
