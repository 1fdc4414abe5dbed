// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// References is a client.Reader whose reads in a reconcile are watches: each request holds a lease on what its reconciles read, and
// a change of that, also that it is created or deleted, enqueues this request and no other. R is the type of the requests.
//
// A reconciler is wrapped by Reconciler, and the controller has Source as one of its sources. What the next successful reconcile
// does not read any more is released; after one that fails the request holds what it held, and what the reconcile has read. A read
// returns a *cache.NotSyncedError as soon as the API server refuses the scope; when it would be answered, the request is enqueued. An
// informer of the option NewInformer must tell its handlers of each change that its Indexer shows, as those of client-go do. It is safe
// for concurrent use.
type References[R comparable] struct {
	of          *registry
	nameWatches int
	noter       note.Noter // of the own writes that are ignored; nil if none are

	mu        sync.Mutex                              // guards what follows, with what is below it; before the locks of leases and informers
	queue     workqueue.TypedRateLimitingInterface[R] // nil before the source has started
	ended     bool                                    // the source has ended
	all       map[refKey]*reference[R]
	listeners map[*informers.MapEntry]*listener[R]
	requests  map[R]map[*reference[R]]struct{}
	wakeUps   map[R][]wakeUp[R]  // of requests that are enqueued, or wait for a retry or a time
	newest    *newestRequests[R] // nil unless somebody looks
	name      string             // of the reconciler; empty if none is wrapped
}

// NewReferences returns references to what is read through a cache of package github.com/tarn-dev/tarn/pkg/cache, such as
// mgr.GetCache() of a manager with it. Each controller has its own.
func NewReferences[R comparable](c crcache.Cache) (*References[R], error) {
	of, err := registryOf(c)
	if err != nil {
		return nil, err
	}
	return &References[R]{
		of: of, nameWatches: defaultNameWatches, all: map[refKey]*reference[R]{}, listeners: map[*informers.MapEntry]*listener[R]{},
		requests: map[R]map[*reference[R]]struct{}{}, wakeUps: map[R][]wakeUp[R]{},
	}, nil
}

// refKey identifies a reference.
type refKey struct {
	informers.Key
	namespace, name, labels string
}

// object returns the key of the object, without a name for a list.
func (k refKey) object() client.ObjectKey {
	return client.ObjectKey{Namespace: k.namespace, Name: k.name}
}

// reference is a lease that requests share. The lock of the references guards users.
type reference[R comparable] struct {
	*Lease
	key   refKey
	users map[R]*use
	woken prometheus.Counter // how often it has woken a request
}

// use is what a request has seen of a reference.
type use struct {
	read    bool   // a read is complete
	version string // the resourceVersion that the newest read has returned; empty if nothing was found, or the read has failed
	absent  bool   // it has found nothing

	early   *event // the newest that came before the first read was complete
	changed bool   // one of these was no addition of what was there at first

	refused bool // the informer has answered no read since it refused one
	own     *own // nil if own writes are not ignored
}

var (
	_ client.Reader = (*References[reconcile.Request])(nil)

	errOutside = errors.New("the context is not that of a reconcile of these references: wrap the reconciler with Reconciler, and read with the context that it gets, before it returns")
	errPanic   = errors.New("the reconcile has panicked")
	errNoQueue = errors.New("the source of the references has not started, or has ended: give Source to the controller")
)

// Reconciler returns a reconciler that calls inner. Reads with the context that inner gets are watches until inner returns.
func (r *References[R]) Reconciler(inner reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	r.mu.Lock()
	r.name = nameOf(inner)
	r.mu.Unlock()
	return reconcile.TypedFunc[R](func(ctx context.Context, request R) (result reconcile.Result, err error) {
		t := &tracker[R]{request: request, wakeUps: r.takeWakeUps(request), read: map[*reference[R]]string{}}
		err = errPanic // unless inner returns
		defer func() {
			if t.end(); err != nil {
				r.settle(t, false)
			}
			r.noteNext(request, t.wakeUps, result, err)
		}()
		ctx = context.WithValue(ctx, trackerKey[R]{r}, t)
		if len(t.wakeUps) > 0 {
			r.logWakeUps(ctx)
		}
		if result, err = inner.Reconcile(r.follow(ctx, t), request); err == nil {
			r.settle(t, true)
			r.keep(request, t.end())
		}
		return result, err
	})
}

// tracker has what a reconcile reads.
type tracker[R comparable] struct {
	request R
	wakeUps []wakeUp[R] // why it is reconciled

	writes, settled bool // it has written, and it has ended; guarded by the lock of the references

	mu   sync.Mutex // guards what follows
	over bool
	read map[*reference[R]]string // with what the newest read has seen; empty before the first is complete
}

// trackerKey is the key of a tracker in a context.
type trackerKey[R comparable] struct{ of *References[R] }

// end lets nothing be read any more, and returns what was.
func (t *tracker[R]) end() map[*reference[R]]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.read
}

// note notes a reference; the caller holds the lock of the references.
func (t *tracker[R]) note(ref *reference[R]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return errOutside
	}
	if _, again := t.read[ref]; !again {
		t.read[ref] = ""
	}
	return nil
}

// saw notes what a read has seen, and reports whether an earlier read of the reconcile has seen another version of an object. The
// version of a list moves with objects that are not in it.
func (t *tracker[R]) saw(ref *reference[R], version string) (differs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over { // who asks for what was read may have it
		return false
	}
	was := t.read[ref]
	t.read[ref] = version
	return ref.key.name != "" && was != "" && was != version
}

// Get implements client.Reader. It is an error outside of a reconcile.
func (r *References[R]) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if key.Name == "" {
		return errors.New("cannot refer to an object: the key has no Name")
	}
	return r.refer(ctx, obj, Scope{Namespace: key.Namespace, Name: key.Name}, func(l *Lease) (string, error) {
		if l.copied != nil {
			err := l.getCopied(ctx, obj, opts)
			return obj.GetResourceVersion(), err
		}
		err := l.get(ctx, key, obj, opts)
		return obj.GetResourceVersion(), err
	})
}

// List implements client.Reader. It is an error outside of a reconcile. A change wakes the request if the object is in the namespace
// and has the labels, or was and had. Field selectors are refused.
func (r *References[R]) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	if o.FieldSelector != nil && !o.FieldSelector.Empty() {
		return fmt.Errorf("cannot refer to a list by the field selector %q: select by namespace and labels", o.FieldSelector)
	}
	if o.LabelSelector != nil {
		if _, selectable := o.LabelSelector.Requirements(); !selectable { // that never changes
			return meta.SetList(list, nil)
		}
	}
	return r.refer(ctx, list, Scope{Namespace: o.Namespace, Labels: o.LabelSelector}, func(l *Lease) (string, error) {
		err := l.list(ctx, list, opts)
		return list.GetResourceVersion(), err
	})
}
