// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// The server reads its own configuration from the watch cache, in memory, as a kube-apiserver reads its informers. A consistent
// list would wait for the progress of the watch, since each write to another resource has moved the revision of etcd: up to 100
// ms on the way of a request. But what this server has written is always seen. Writes of other servers on the same etcd are
// seen a little later, as by an informer.

// writeTracker is the storage of a kind. It keeps the newest revision at which this server has written. It is safe for concurrent use.
type writeTracker struct {
	storage.Interface
	written atomic.Uint64
}

// Create implements storage.Interface.
func (t *writeTracker) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return t.track(t.Interface.Create(ctx, key, obj, out, ttl), out)
}

// Delete implements storage.Interface. The object has the revision of its deletion.
func (t *writeTracker) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, existing runtime.Object, opts storage.DeleteOptions) error {
	return t.track(t.Interface.Delete(ctx, key, out, preconditions, validate, existing, opts), out)
}

// GuaranteedUpdate implements storage.Interface.
func (t *writeTracker) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, existing runtime.Object) error {
	return t.track(t.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, existing), out)
}

func (t *writeTracker) track(err error, out runtime.Object) error {
	if err != nil {
		return err
	}
	version, err := t.Versioner().ObjectResourceVersion(out)
	for before := t.written.Load(); err == nil && before < version; before = t.written.Load() {
		if t.written.CompareAndSwap(before, version) {
			return nil
		}
	}
	return nil
}

// minimum is the resource version from which on a read sees all that this server has written to the store.
func (s *Store) minimum() string { return strconv.FormatUint(s.writes.written.Load(), 10) }

// ListAll lists the objects of all namespaces that the watch cache has. The caller may change the list, and not what its objects
// refer to.
func ListAll[L runtime.Object](ctx context.Context, store *Store) (L, error) {
	return ListIn[L](ctx, store, "")
}

// ListIn is ListAll for one namespace.
func ListIn[L runtime.Object](ctx context.Context, store *Store, namespace string) (L, error) {
	var none L
	ctx = genericapirequest.WithNamespace(ctx, namespace)
	list, err := store.List(ctx, &metainternalversion.ListOptions{ResourceVersion: store.minimum()})
	if storage.IsTooLargeResourceVersion(err) { // the watch cache is cut off from etcd
		list, err = store.List(ctx, &metainternalversion.ListOptions{})
	}
	if err != nil {
		return none, err
	}
	typed, ok := list.(L)
	if !ok {
		return none, fmt.Errorf("list of %s: got %T, want %T", store.DefaultQualifiedResource, list, none)
	}
	return typed, nil
}

// Cached returns an object that the watch cache has, or else as it is in storage now. It is of the namespace of the request if it
// is namespaced. The caller may change the object, and not what it refers to.
func Cached[T runtime.Object](ctx context.Context, store *Store, name string) (T, error) {
	obj, err := store.Get(ctx, name, &metav1.GetOptions{ResourceVersion: store.minimum()})
	if apierrors.IsNotFound(err) || storage.IsTooLargeResourceVersion(err) {
		return GetOne[T](ctx, store, name)
	}
	if err != nil {
		return *new(T), err
	}
	return MustBe[T](obj), nil
}

// GetOne returns an object as it is in storage now, of the namespace of the request if it is namespaced.
func GetOne[T runtime.Object](ctx context.Context, from rest.Getter, name string) (T, error) {
	obj, err := from.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return *new(T), err
	}
	return MustBe[T](obj), nil
}

// Stores finds the store of a kind by its resource.
type Stores map[schema.GroupResource]*Store

// Destroy closes them. To close them twice is harmless.
func (s Stores) Destroy() {
	for _, store := range s {
		store.Destroy()
	}
}
