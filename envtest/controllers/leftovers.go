// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// patience is how long a kind may take until it is cached. Without it, the namespace is looked at again after its estimate.
const patience = 5 * time.Second

// leftovers watches a kind while objects of it remain in a namespace, so that the namespace is reconciled when they change. A test
// that takes away the last finalizer need not wait.
type leftovers struct {
	cache      cache.Cache
	controller controller.Controller

	mu      sync.Mutex // guards what follows; whoever begins to watch a kind holds it, for patience at most
	watched map[schema.GroupVersionKind]*leftover
	begun   int // how many kinds were watched, which numbers them
}

// leftover is a kind of which something remains.
type leftover struct {
	number     int              // zero until the controller is told of its changes
	namespaces sets.Set[string] // in which it remains
}

func newLeftovers(from cache.Cache, c controller.Controller) *leftovers {
	return &leftovers{cache: from, controller: c, watched: map[schema.GroupVersionKind]*leftover{}}
}

// now returns what watch wants to know of the beginning of a look.
func (l *leftovers) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// watch watches the kinds that remain in a namespace. It reports whether one of them was not watched when the look began, or is not served
// any more: of what has gone since then nobody tells.
func (l *leftovers) watch(ctx context.Context, namespace string, kinds []schema.GroupVersionKind, look int) (missed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range kinds {
		of := l.watched[kind]
		if of == nil {
			of = &leftover{namespaces: sets.New[string]()}
			l.watched[kind] = of
		}
		of.namespaces.Insert(namespace)
		if of.number == 0 {
			if err := l.begin(ctx, kind); err != nil {
				missed = missed || meta.IsNoMatchError(err)
				klog.FromContext(ctx).V(1).Info("A kind cannot be watched: the namespace is looked at again after a while", "kind", kind.String(), "reason", err.Error())
				continue
			}
			l.begun++
			of.number = l.begun
		}
		missed = missed || of.number > look
	}
	return missed
}

// end says what remains in a namespace, which is nothing else. It ends the watches of kinds of which nothing remains in any namespace.
func (l *leftovers) end(ctx context.Context, namespace string, remain []schema.GroupVersionKind) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failed []error
	for kind, of := range l.watched {
		if slices.Contains(remain, kind) || of.namespaces.Delete(namespace).Len() > 0 {
			continue
		}
		if err := l.cache.RemoveInformer(ctx, metadataOf(kind)); err != nil {
			failed = append(failed, err)
			continue
		}
		delete(l.watched, kind)
	}
	return errors.Join(failed...)
}

// begin returns when the metadata of a kind is cached, and the controller is told of its changes.
func (l *leftovers) begin(ctx context.Context, kind schema.GroupVersionKind) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it is not cached after %s", patience))
	defer cancel()
	informer, err := l.cache.GetInformer(ctx, metadataOf(kind))
	if err != nil {
		return err
	}
	return l.controller.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		changed := func(obj any) {
			if o, ok := obj.(client.Object); ok {
				queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}})
			}
		}
		_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, obj any) {
				if o, ok := obj.(client.Object); ok && isGoing(o) {
					changed(obj)
				}
			},
			DeleteFunc: func(obj any) {
				if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
					obj = last.Obj
				}
				changed(obj)
			},
		})
		return err
	}))
}

// metadataOf returns an empty object of a kind that stands for its metadata.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// withoutDescription is a transform that takes away what no controller here looks at.
func withoutDescription(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields, m.Annotations, m.Labels = nil, nil, nil
	}
	return obj, nil
}
