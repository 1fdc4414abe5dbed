// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Handler returns an event handler that does what next does, and has WakeUps name the event for which next enqueues a request, and the
// line of the call of Handler. The builder makes the handlers of For and Owns itself, so a controller names their events if it has Watches
// in their place, with handler.EnqueueRequestForObject and handler.EnqueueRequestForOwner.
func (r *References[R]) Handler(next handler.TypedEventHandler[client.Object, R]) handler.TypedEventHandler[client.Object, R] {
	_, file, line, _ := runtime.Caller(1) // the types of most handlers are that of handler.Funcs
	return &noting[R]{of: r, next: next, name: fmt.Sprintf("%s/%s:%d", path.Base(path.Dir(file)), path.Base(file), line)}
}

// noting is an event handler that gives another one a queue which notes why a request is added.
type noting[R comparable] struct {
	of   *References[R]
	next handler.TypedEventHandler[client.Object, R]
	name string
}

// Create implements TypedEventHandler.
func (n *noting[R]) Create(ctx context.Context, e crevent.TypedCreateEvent[client.Object], queue workqueue.TypedRateLimitingInterface[R]) {
	n.next.Create(ctx, e, n.queue(queue, added, e.Object))
}

// Update implements TypedEventHandler.
func (n *noting[R]) Update(ctx context.Context, e crevent.TypedUpdateEvent[client.Object], queue workqueue.TypedRateLimitingInterface[R]) {
	n.next.Update(ctx, e, n.queue(queue, modified, e.ObjectNew))
}

// Delete implements TypedEventHandler.
func (n *noting[R]) Delete(ctx context.Context, e crevent.TypedDeleteEvent[client.Object], queue workqueue.TypedRateLimitingInterface[R]) {
	n.next.Delete(ctx, e, n.queue(queue, deleted, e.Object))
}

// Generic implements TypedEventHandler.
func (n *noting[R]) Generic(ctx context.Context, e crevent.TypedGenericEvent[client.Object], queue workqueue.TypedRateLimitingInterface[R]) {
	n.next.Generic(ctx, e, n.queue(queue, generic, e.Object))
}

// queue returns a queue that notes an event for each request. That of a controller has priorities; another one is returned as it is.
func (n *noting[R]) queue(queue workqueue.TypedRateLimitingInterface[R], change string, obj client.Object) workqueue.TypedRateLimitingInterface[R] {
	priority, ok := queue.(priorityqueue.PriorityQueue[R])
	if !ok {
		return queue
	}
	w := wakeUp[R]{handler: n.name, change: change, at: time.Now()}
	if v := reflect.ValueOf(obj); v.IsValid() && !v.IsZero() { // an event that a channel brings may have no object
		w.kind, _ = n.of.of.of.Kind(obj) // nor one that the scheme of the cache has
		w.object = client.ObjectKeyFromObject(obj)
	}
	return notingQueue[R]{priority, n.of, w}
}

// notingQueue notes why a request is added before it is: the reconcile may begin at once.
type notingQueue[R comparable] struct {
	priorityqueue.PriorityQueue[R]
	of  *References[R]
	why wakeUp[R]
}

// AddWithOpts implements PriorityQueue.
func (q notingQueue[R]) AddWithOpts(opts priorityqueue.AddOpts, requests ...R) {
	q.of.mu.Lock()
	for _, request := range requests {
		q.of.noteLocked(request, q.why)
	}
	q.of.mu.Unlock()
	q.PriorityQueue.AddWithOpts(opts, requests...)
}

func (q notingQueue[R]) Add(request R) { q.AddWithOpts(priorityqueue.AddOpts{}, request) }

func (q notingQueue[R]) AddAfter(request R, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, request)
}

func (q notingQueue[R]) AddRateLimited(request R) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}
