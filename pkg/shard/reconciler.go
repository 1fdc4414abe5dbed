// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Reconciler returns a reconciler that calls another one for the requests of this replica. The key of a request is its namespace, or its
// name if it has none. It is held meanwhile, so the context of a reconcile ends when the key is lost, and a client of pkg/client refuses
// to write with it. With another Options.Key it returns errors: use [Ring.ReconcilerBy].
//
// A request of another replica is dropped. The objects of a key are told of again when it becomes this replica's: by a cache that follows
// the ring (its Tuning.Shard), or by [Ring.Source]. Cluster-scoped kinds, kinds whose ByObject has Namespaces, and other caches need a
// Source for each controller, also with [Ring.Selector]. While there is neither of them, a refused request fails and is tried again. The
// Ring does not know of which controllers they are: it goes by any Source, and by any cache for a request with a namespace. A request
// whose key another member has not given up yet comes back soon. An object that is deleted while its key moves may be told to nobody, as
// when a controller restarts: what has to be cleaned up needs a finalizer.
//
// The controller has to run on every replica: NeedLeaderElection is false in its options. References (package lease) go outside, as
// refs.Reconciler(ring.Reconciler(r)), so that those of a key that is lost are given up.
func (r *Ring) Reconciler(of reconcile.Reconciler) reconcile.Reconciler {
	return r.reconciler(of, func(_ context.Context, req reconcile.Request) (string, error) {
		if r.options.Key != namespaceField {
			return "", reconcile.TerminalError(fmt.Errorf("the key of the ring is %s, which a request does not have: use ReconcilerBy", r.options.Key))
		}
		return namespaceOrName(req.NamespacedName), nil
	})
}

// ReconcilerBy is Reconciler for any Options.Key. If that is not metadata.namespace, it reads the object of a request from a reader into a
// copy of empty, and takes [Ring.KeyOf] it. The reader must not be later than what the controller watches: it is the client of the manager, with
// the type that the controller watches, or one without a cache. A request whose object is not found is dropped, so no reconcile is told of a
// deletion. After another error of the reader the request is tried again.
func (r *Ring) ReconcilerBy(of reconcile.Reconciler, from client.Reader, empty client.Object) reconcile.Reconciler {
	if r.options.Key == namespaceField {
		return r.Reconciler(of)
	}
	return r.reconciler(of, func(ctx context.Context, req reconcile.Request) (string, error) {
		obj := empty.DeepCopyObject().(client.Object)
		err := from.Get(ctx, req.NamespacedName, obj)
		return r.KeyOf(obj), err
	})
}

// reconciler is ReconcilerBy with a function that returns the key of a request.
func (r *Ring) reconciler(of reconcile.Reconciler, keyOf func(context.Context, reconcile.Request) (string, error)) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		key, err := keyOf(ctx, req)
		if err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		held, release, err := r.Hold(ctx, key)
		if err != nil {
			return r.refuse(req, key, err)
		}
		defer release()
		result, err := of.Reconcile(held, req)
		if lost := (*NotOwnedError)(nil); errors.As(context.Cause(held), &lost) { // whatever it returns, it may have stopped halfway
			return r.refuse(req, key, lost)
		}
		return result, err
	})
}

// refuse drops a request if the Ring has a Source, or a cache for its namespace. It does not know whether that is for the kind of the
// request.
func (r *Ring) refuse(req reconcile.Request, key string, why error) (reconcile.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch term := r.termOf(key); {
	case term > 0:
		return reconcile.Result{RequeueAfter: r.options.RetryPeriod / 4}, nil
	case r.terms.replayed, r.terms.followed && r.options.Key == namespaceField && req.Namespace != "":
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, fmt.Errorf("nothing tells of %s when its key is this replica's: watch Ring.Source, or set Tuning.Shard of the cache if the key is the namespace: %w", req, why)
}

// Source returns a source that enqueues the objects of keys that have become this replica's. It lists them from a reader, such as the
// cache of a manager, into copies of an empty list, whenever another member has left or this one has joined. It makes up for requests that
// were dropped, and costs nothing in between. The reader and the list must not change later. Errors of the reader are logged, and it is asked
// again. The goroutine of a Source ends with the context of its controller.
func (r *Ring) Source(from client.Reader, list client.ObjectList) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.mu.Lock()
		r.terms.replayed = true
		r.mu.Unlock()
		go r.replay(ctx, from, list, queue)
		return nil
	})
}

// replay enqueues what has a new term until ctx ends.
func (r *Ring) replay(ctx context.Context, from client.Reader, empty client.ObjectList, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for seen := uint64(0); ctx.Err() == nil; {
		changed := r.changed.Wait()
		newest := r.newestTerm()
		if newest <= seen {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		list := empty.DeepCopyObject().(client.ObjectList)
		err := from.List(ctx, list, client.UnsafeDisableDeepCopy)
		if err == nil {
			err = meta.EachListItem(list, func(obj runtime.Object) error {
				m, err := meta.Accessor(obj)
				if err != nil {
					return err
				}
				if r.termNow(r.KeyOf(m)) > seen {
					queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: m.GetNamespace(), Name: m.GetName()}})
				}
				return nil
			})
		}
		if err != nil && ctx.Err() == nil {
			r.logger.Error(err, "Cannot list what has become this replica's")
			r.sleep(ctx, r.clock.now().Add(r.options.RetryPeriod), nil)
			continue
		}
		seen = newest
	}
}
