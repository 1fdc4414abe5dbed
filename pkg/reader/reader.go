// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/store"
	"github.com/tarn-dev/tarn/pkg/index"
)

// Store holds the objects of a kind in one scope: those of an informer of package informers, or of [StoreOf].
type Store = store.Store

// StoreOf returns the store of an informer that package informers has not made. The Indexer must have the namespace index
// of client-go (toolscache.NamespaceIndex); fields are the declared fields of that informer.
func StoreOf(indexer toolscache.Indexer, fields *index.Fields) Store {
	return store.NewIndexer(indexer, fields)
}

// Options say what a CacheReader reads. Store, GVK and Fields must be set.
type Options struct {
	// Store holds the objects.
	Store Store
	// GVK is the kind of the objects in the store.
	GVK schema.GroupVersionKind
	// Scope is the scope of the kind; empty stands for the scope of the store.
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
	objects         store.Objects
	gvk             schema.GroupVersionKind
	fields          *index.Fields
	restriction     string
	disableDeepCopy bool
	reads           *store.Reads // nil counts nothing
}

var _ client.Reader = (*CacheReader)(nil)

// New returns a reader.
func New(o Options) *CacheReader {
	if o.Scope != "" {
		o.Store.SetScope(o.Scope)
	}
	return &CacheReader{
		store:           o.Store,
		objects:         o.Store.Objects(),
		gvk:             o.GVK,
		fields:          o.Fields,
		restriction:     o.Restriction,
		disableDeepCopy: o.DisableDeepCopy,
		reads:           o.Store.Reads(),
	}
}

// Get copies the object with the given key into out. The namespace of the key is
// ignored for a cluster-scoped kind. An object that is not in the store is a
// NotFound API error.
func (r *CacheReader) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	begin := r.reads.Get()
	err := r.read(ctx, key, out, opts)
	r.reads.Got(begin)
	return err
}

func (r *CacheReader) read(ctx context.Context, key client.ObjectKey, out client.Object, opts []client.GetOption) error {
	o := client.GetOptions{}
	o.ApplyOptions(opts)
	if r.ClusterScoped() {
		key.Namespace = ""
	}

	fresh, err := getFreshness(&o)
	if err != nil {
		return err
	}
	obj, exists, err := r.store.Get(ctx, key, fresh)
	if err != nil {
		return fmt.Errorf("reading %s %s from the cache: %w", r.gvk.Kind, key, r.explain(err))
	}
	if !exists {
		return r.notFound(key)
	}
	return r.write(obj, out, o.UnsafeDisableDeepCopy)
}

// explain returns err with what the reader knows of the wait that it is of.
func (r *CacheReader) explain(err error) error {
	if err == nil {
		return nil // before errors.As makes the variables allocate
	}
	late, unanswered := (*store.LateError)(nil), (*pending.UnansweredError)(nil)
	switch {
	case errors.As(err, &late):
		return &store.NotFreshError{
			GVK: r.gvk, Scope: r.restriction, Wanted: store.Version(late.Wanted), Reached: store.Version(late.Reached), Cause: late.Cause,
		}
	case errors.As(err, &unanswered):
		return &store.UnansweredError{GVK: r.gvk, Scope: r.restriction, Cause: unanswered.Cause}
	}
	return err
}

// ClusterScoped reports whether the kind is cluster-scoped: then reads ignore the namespace of a key.
func (r *CacheReader) ClusterScoped() bool { return r.store.ClusterScoped() }

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

// shares reports whether a read shares its values with the store, given the
// option of the call.
func (r *CacheReader) shares(call *bool) bool {
	return r.disableDeepCopy || call != nil && *call
}

// countsOf returns what counts a list of readers: a list of several namespaces counts once.
func countsOf(readers []*CacheReader) *store.Reads {
	if len(readers) == 0 {
		return nil
	}
	return readers[0].reads
}
