// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/informers"
)

const (
	// defaultNameWatches is how many names of a kind are watched one by one, by default.
	defaultNameWatches = 100
	// getTimeout is how long a GET of an object that was changed may take.
	getTimeout = 30 * time.Second
	// getPause is how long after a GET that has failed the request is woken.
	getPause = 30 * time.Second
)

// SetNameWatches has a name watched by itself as long as fewer than n names of its kind are, for whatever leases; by default n is 100.
// A further name is served by the metadata of the whole kind, or of its namespace if the cache has not all or has other settings there: one
// watch tells which objects have changed, and a GET reads each of these that is referenced. That needs the permissions to list and watch the kind,
// and to get the objects. Zero has no name watched by itself. In the same way a further label selector of a list is served by the whole
// kind or namespace, if n selectors of the kind are watched by themselves. SetNameWatches is called before the source starts.
func (r *References[R]) SetNameWatches(n int) { r.nameWatches = n }

// leaseOn returns a lease for a reference. A name is served by the first of these: an informer of more names that is there, one of
// metadata that is there, one of the name, one of the metadata of all names.
func (r *References[R]) leaseOn(ctx context.Context, key informers.Key, scope Scope) (*Lease, error) {
	at, err := r.of.placeOf(ctx, key, scope)
	if err != nil {
		return nil, err
	}
	if scope.Name == "" && len(at.extent.labels) == 0 {
		return r.of.lease(ctx, at, math.MaxInt)
	}
	if scope.Name == "" {
		l, err := r.of.lease(ctx, at, r.nameWatches)
		if l == nil && err == nil {
			l, err = r.of.lease(ctx, at.ofAll(), math.MaxInt)
		}
		return l, err
	}
	if l, err := r.of.lease(ctx, at, 0); l != nil || err != nil {
		return l, err
	}
	metadata := at
	metadata.key.Representation = informers.Metadata
	l, err := r.of.lease(ctx, metadata, 0)
	if l == nil && err == nil {
		if l, err := r.of.lease(ctx, at, r.nameWatches); l != nil || err != nil {
			return l, err
		}
		l, err = r.of.lease(ctx, metadata.ofAll(), math.MaxInt)
	}
	if err == nil && metadata.key != at.key {
		r.of.copyFor(l, copyKey{at.key, client.ObjectKey{Namespace: scope.Namespace, Name: scope.Name}})
	}
	return l, err
}

// copyKey identifies the copy of an object in a representation.
type copyKey struct {
	informers.Key
	object client.ObjectKey
}

// objectCopy is the newest copy of an object, for all leases on its name that have metadata. These tell when it is old.
type objectCopy struct {
	copyKey
	leases int // guarded by the lock of the registry

	reading chan struct{} // a read puts something in while it uses what follows, and waits for that with its context
	obj     client.Object // nil if there is none, or it was evicted; it does not change
	version string        // of the newest object that was read, whether it is kept or not; empty if there is none
	at      string        // the version in the metadata when that was asked for
	unread  int           // how often the copy was measured since it was read

	bytes atomic.Int64 // of obj when it was measured; zero if it was not
}

// keep keeps an object, or nil if there is none. The caller is the read.
func (c *objectCopy) keep(obj client.Object) {
	c.bytes.Store(0)
	if c.obj, c.version = obj, ""; obj != nil {
		c.version = obj.GetResourceVersion()
	}
}

// copyFor has a lease on the metadata of an object read the object, from the copy that all these leases share.
func (r *registry) copyFor(l *Lease, key copyKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copies == nil {
		r.copies = map[copyKey]*objectCopy{}
	}
	if r.copies[key] == nil {
		r.copies[key] = &objectCopy{copyKey: key, reading: make(chan struct{}, 1)}
	}
	c, letGo := r.copies[key], l.letGo
	c.leases++
	l.copied = c
	l.letGo = sync.OnceFunc(func() {
		letGo()
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.leases--; c.leases == 0 {
			delete(r.copies, key)
		}
	})
}

// getCopied reads the object whose metadata the lease is on. It asks the API server unless the copy is the version of which the
// metadata tell, or was asked for after that. Versions are compared for equality, because they go back when etcd is restored.
func (l *Lease) getCopied(ctx context.Context, obj client.Object, opts []client.GetOption) error {
	c := l.copied
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	head := &metav1.PartialObjectMetadata{}
	head.SetGroupVersionKind(c.GroupVersionKind)
	err := l.get(ctx, c.object, head, opts)
	ahead := c.version != "" && c.version != c.at // of the metadata: they may tell of an older object that is gone, so the server is asked
	switch {
	case apierrors.IsNotFound(err) && !ahead:
		c.keep(nil)
		return err
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	if err != nil || c.obj == nil || reflect.TypeOf(c.obj) != reflect.TypeOf(obj) || head.ResourceVersion != c.at && head.ResourceVersion != c.version {
		c.at = head.ResourceVersion
		read, err := c.ask(ctx, l.of.of, obj)
		if err != nil {
			c.keep(nil)
			return err
		}
		c.keep(read)
	}
	c.unread = 0
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(c.obj.DeepCopyObject()).Elem())
	obj.GetObjectKind().SetGroupVersionKind(c.GroupVersionKind)
	return nil
}

// ask reads the object from the API server, as the type of example.
func (c *objectCopy) ask(ctx context.Context, from lessor, example client.Object) (client.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	obj := reflect.New(reflect.TypeOf(example).Elem()).Interface().(client.Object)
	from.LeaseMetrics().Got(c.GroupVersionKind)
	return obj, from.ReadLive(ctx, c.GroupVersionKind, c.object, obj)
}
