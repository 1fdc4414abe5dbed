// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"math"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// defaultNameWatches is how many names of a kind are watched one by one, by default.
const defaultNameWatches = 100

// Limits of informers that have one name each.
const (
	noNames  = 0 // none begins, and none serves
	anyNames = math.MaxInt
)

// SetNameWatches lets at most n names of a kind be watched one by one; by default they are 100. A further name is served by the
// metadata of the whole kind, or of the namespace if the cache does not hold all: one watch tells which objects have changed, and a
// GET reads each of these that is referenced. That needs the permissions to list and watch the kind, and to get the objects. Zero has
// every name served so. SetNameWatches is called before the source starts.
func (r *References[R]) SetNameWatches(n int) { r.nameWatches = n }

// leaseOn returns a lease for a reference, on the first of these that there is or may begin: an informer of more than one name, one
// of metadata, one of the name, one of the metadata of all. If the informer has metadata and the reference wants the object, so is
// its copy returned.
func (r *References[R]) leaseOn(ctx context.Context, key informers.Key, scope Scope) (*Lease, *objectCopy, error) {
	if scope.Name == "" {
		l, err := r.of.lease(ctx, key, scope, anyNames)
		return l, nil, err
	}
	heads := informers.Key{GroupVersionKind: key.GroupVersionKind, Representation: informers.Metadata}
	if l, err := r.of.lease(ctx, key, scope, noNames); l != nil || err != nil {
		return l, nil, err
	}
	l, err := r.of.lease(ctx, heads, scope, noNames)
	if l == nil && err == nil {
		if l, err = r.of.lease(ctx, key, scope, r.nameWatches); l != nil {
			return l, nil, nil
		}
	}
	if l == nil && err == nil {
		l, err = r.of.leaseInAll(ctx, heads, scope)
	}
	if err != nil || key == heads {
		return l, nil, err
	}
	return l, newObjectCopy(), nil
}

// leaseInAll returns a lease on a scope whose informer has all of the kind, or all of the namespace if the cache does not hold
// every namespace.
func (r *registry) leaseInAll(ctx context.Context, key informers.Key, scope Scope) (*Lease, error) {
	wanted, err := scope.check()
	if err != nil {
		return nil, err
	}
	held, _, err := r.of.Maps(ctx, key.GroupVersionKind, wanted.namespace)
	if err != nil {
		return nil, err
	}
	all := Scope{Namespace: wanted.namespace}
	if slices.ContainsFunc(held, func(m *informers.Map) bool { return m.Namespace() == "" }) {
		all.Namespace = ""
	}
	l, err := r.lease(ctx, key, all, anyNames)
	if err != nil {
		return nil, err
	}
	l.scope, l.filtered = wanted, true
	return l, nil
}

// objectCopy is the newest copy of an object. The metadata of its kind tell when it is old.
type objectCopy struct {
	reading chan struct{} // whoever has put something in may use what follows; a read waits with its context

	obj client.Object // nil if there is none; it does not change
	at  string        // the version in the metadata when obj was asked for
}

func newObjectCopy() *objectCopy { return &objectCopy{reading: make(chan struct{}, 1)} }

// get reads the object. It asks the API server unless the copy is what the metadata in the lease tell of, or was asked for after
// that. Versions are compared for equality, because they go back when etcd is restored.
func (c *objectCopy) get(ctx context.Context, heads *Lease, key client.ObjectKey, obj client.Object) error {
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	head := &metav1.PartialObjectMetadata{}
	head.SetGroupVersionKind(heads.gvk())
	if err := heads.get(ctx, key, head, nil); err != nil {
		c.obj = nil
		return err
	}
	if c.obj == nil || reflect.TypeOf(c.obj) != reflect.TypeOf(obj) || head.ResourceVersion != c.at && head.ResourceVersion != c.obj.GetResourceVersion() {
		next := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
		c.obj, c.at = nil, head.ResourceVersion
		if err := heads.of.of.ReadLive(ctx, heads.gvk(), key, next); err != nil {
			return err
		}
		c.obj = next
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(c.obj.DeepCopyObject()).Elem())
	obj.GetObjectKind().SetGroupVersionKind(heads.gvk())
	return nil
}

// single reports whether a reference has an informer of its name alone.
func (ref *reference[R]) single() bool { return ref.key.name != "" && !ref.filtered }

// get reads the object of a reference.
func (ref *reference[R]) get(ctx context.Context, key client.ObjectKey, obj client.Object, opts []client.GetOption) error {
	if ref.copy == nil {
		return ref.Lease.get(ctx, key, obj, opts)
	}
	return ref.copy.get(ctx, ref.Lease, ref.key.object(), obj)
}
