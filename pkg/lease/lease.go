// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/informers"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// Lease holds a scope of a kind until it is released. It reads as a client.Reader of the scope, and it is a controller-runtime
// cache.Informer of the scope, for source.Informer. It is safe for concurrent use.
type Lease struct {
	of       *registry
	entry    *informers.MapEntry
	scope    extent
	filtered bool        // the informer is wider than the scope
	wider    string      // the scope of such an informer
	copied   *objectCopy // of the object of which the lease has the metadata alone; else nil
	letGo    func()

	mu       sync.Mutex // guards what follows; before the locks of the informer
	released bool
	deletes  bool                                                     // handlers that are added are told of deletions when it is released
	handlers map[toolscache.ResourceEventHandlerRegistration]*knowing // nil if it is not told
}

// newLease returns a lease on a scope that is served by an informer of another one.
func newLease(of *registry, entry *informers.MapEntry, scope, has extent, letGo func()) *Lease {
	l := &Lease{
		of: of, entry: entry, scope: scope, filtered: !scope.covers(has),
		handlers: map[toolscache.ResourceEventHandlerRegistration]*knowing{},
	}
	if l.filtered {
		l.wider = has.String()
	}
	l.letGo = func() {
		of.mu.Lock()
		delete(of.leases, l)
		of.mu.Unlock()
		letGo()
	}
	of.mu.Lock()
	of.leases[l] = struct{}{}
	of.mu.Unlock()
	return l
}

// Release gives the lease back. Its event handlers get no more events, but for those of DeleteOnRelease; one that runs is not waited
// for. After that every call is an error. To release a lease twice is an error, and does nothing.
func (l *Lease) Release() error {
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return l.over()
	}
	l.released = true
	handlers := l.handlers
	l.handlers = nil
	l.mu.Unlock()
	for added, knows := range handlers {
		_ = l.entry.Informer.RemoveEventHandler(added) // it fails if the informer has stopped, and the handler with it
		knows.end()
	}
	l.letGo()
	return nil
}

// over returns the error of a lease that was released.
func (l *Lease) over() error { return fmt.Errorf("the lease on %s was released", l) }

func (l *Lease) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return l.over()
	}
	return nil
}

// String names the kind and the scope.
func (l *Lease) String() string { return fmt.Sprintf("%s (%s)", l.entry.Key(), l.scope) }

// WaitForSync waits until the scope has synced. If ctx ends first, the error is a *cache.NotSyncedError, which says why. The
// failure policy of the kind may return one earlier.
func (l *Lease) WaitForSync(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	return l.sync(ctx)
}

// sync is WaitForSync of a lease that was not released. An optional kind may have come with a scope that the lease does not suit.
func (l *Lease) sync(ctx context.Context) error {
	err := l.entry.WaitForSync(ctx)
	if l.scope.namespace != "" && (l.entry.OfOtherScope() || err == nil && l.entry.Reader.ClusterScoped()) {
		return l.scope.clusterScoped()
	}
	return l.explain(err)
}

// explain returns the error of a lease for one of its informer. If that is wider, the scope alone may be permitted.
func (l *Lease) explain(err error) error {
	if err == nil || l.wider == "" || l.entry.Failing() == nil {
		return err
	}
	return fmt.Errorf("the lease on %s stays with an informer of %s, which began to fail later; release it and acquire another one for an informer of the scope alone: %w", l, l.wider, err)
}

// HasSynced reports whether the scope has synced.
func (l *Lease) HasSynced() bool { return l.entry.Informer.HasSynced() }

// HasSyncedChecker returns a checker for the sync.
func (l *Lease) HasSyncedChecker() toolscache.DoneChecker { return l.entry.Informer.HasSyncedChecker() }

// Get reads an object of the lease's kind and representation. It waits until the scope has synced. A key that is outside the
// scope is a *cache.OutsideScopeError; an object that does not match its labels is not found.
func (l *Lease) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := l.readable(ctx, obj); err != nil {
		return fmt.Errorf("cannot get %s: %w", key, err)
	}
	return l.get(ctx, key, obj, opts)
}

// get is Get for an object that can be read.
func (l *Lease) get(ctx context.Context, key client.ObjectKey, obj client.Object, opts []client.GetOption) error {
	if l.entry.Reader.ClusterScoped() {
		key.Namespace = ""
	}
	if !l.scope.includes(key) {
		return l.of.of.Outside(l.gvk(), key, l.scope.String())
	}
	if err := l.entry.Get(ctx, key, obj, opts...); err != nil || !l.filtered || l.scope.matches(obj) {
		return err
	}
	empty(obj, l.gvk())
	err := apierrors.NewNotFound(schema.GroupResource{Group: l.gvk().Group, Resource: l.gvk().Kind}, key.Name)
	err.ErrStatus.Message += " in the lease, which holds only " + l.scope.String()
	return err
}

// empty empties what a reader has filled.
func empty(obj client.Object, gvk schema.GroupVersionKind) {
	reflect.ValueOf(obj).Elem().SetZero()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
}

// List reads the objects of the scope that match the options. It waits until the scope has synced. A namespace outside the scope
// is a *cache.OutsideScopeError.
func (l *Lease) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := l.readable(ctx, list); err != nil {
		return fmt.Errorf("cannot list: %w", err)
	}
	return l.list(ctx, list, opts)
}

// list is List for a list that can be read.
func (l *Lease) list(ctx context.Context, list client.ObjectList, opts []client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	if o.Namespace != "" && l.scope.namespace != "" && o.Namespace != l.scope.namespace {
		return l.of.of.Outside(l.gvk(), client.ObjectKey{Namespace: o.Namespace}, l.scope.String())
	}
	if l.filtered {
		l.scope.restrict(&o)
	}
	from, err := l.entry.FreshReader(opts)
	if err != nil {
		return err
	}
	return reader.List(ctx, list, &o, from)
}

// restrict adds the requirements of e to the options of a list, without those that no informer evaluates.
func (e extent) restrict(o *client.ListOptions) {
	if o.Namespace == "" {
		o.Namespace = e.namespace
	}
	if len(e.labels) > 0 {
		selector := o.LabelSelector
		if selector == nil {
			selector = labels.Everything()
		}
		o.LabelSelector = selector.Add(e.labels...)
	}
	var terms []fields.Selector
	if o.FieldSelector != nil {
		terms = append(terms, o.FieldSelector)
	}
	for _, r := range e.fields {
		if isOfKey(r.Field) {
			terms = append(terms, selectorOf(r))
		}
	}
	if len(terms) > 0 {
		o.FieldSelector = fields.AndSelectors(terms...)
	}
}

// readable returns an error unless obj, an object or a list, can be read now.
func (l *Lease) readable(ctx context.Context, obj runtime.Object) error {
	if err := l.check(); err != nil {
		return err
	}
	gvk, err := l.of.of.Kind(obj)
	if err != nil {
		return err
	}
	if key := informers.KeyOf(gvk, obj); key != l.entry.Key() {
		return fmt.Errorf("it is %s, and the lease is on %s", key, l.entry.Key())
	}
	return l.sync(ctx)
}

func (l *Lease) gvk() schema.GroupVersionKind { return l.entry.Key().GroupVersionKind }
