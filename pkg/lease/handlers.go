// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/informers"
)

var (
	_ crcache.Informer = (*Lease)(nil)
	_ client.Reader    = (*Lease)(nil)
)

// AddEventHandler adds a handler of the objects in the scope. It is told of those that are there first.
func (l *Lease) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return l.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod is AddEventHandler with a period after which the handler is told of every object again.
func (l *Lease) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return l.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions is AddEventHandler with options. The registration is one of this lease.
func (l *Lease) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	if handler == nil {
		return nil, fmt.Errorf("cannot add an event handler to the lease on %s: it is nil", l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil, l.over()
	}
	var knows *knowing
	if l.deletes {
		knows = &knowing{of: l.entry, next: handler, known: map[toolscache.ObjectName]types.UID{}}
		handler = knows
	}
	if l.filtered {
		handler = &restricted{l.scope, handler}
	}
	added, err := l.entry.Informer.AddEventHandlerWithOptions(handler, options)
	if err != nil {
		return nil, err
	}
	l.handlers[added] = knows
	return added, nil
}

// DeleteOnRelease has Release tell each handler that is added later of a deletion of each object that it knows: of which it was told, and
// not that it is deleted. The handler is told before Release returns, unless it is working on an event: then it is told after that, in the
// goroutine of the event. An object that is in the cache no more comes as a DeletedFinalStateUnknown, with its key and its UID alone. The
// handler is not told if RemoveEventHandler has removed it.
func (l *Lease) DeleteOnRelease() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deletes = true
}

// RemoveEventHandler removes a handler. It is idempotent, and does not wait for the handler to return.
func (l *Lease) RemoveEventHandler(added toolscache.ResourceEventHandlerRegistration) error {
	l.mu.Lock()
	delete(l.handlers, added)
	l.mu.Unlock()
	return l.entry.Informer.RemoveEventHandler(added)
}

// AddIndexers adds indexers to the informer that serves the lease, which others may use too.
func (l *Lease) AddIndexers(indexers toolscache.Indexers) error {
	if err := l.check(); err != nil {
		return err
	}
	return l.entry.Informer.AddIndexers(indexers)
}

// IsStopped reports whether no more events come: the lease was released, or the cache has stopped.
func (l *Lease) IsStopped() bool { return l.check() != nil || l.entry.Informer.IsStopped() }

// restricted passes on what a handler of a wider informer hears of a scope: its goroutine is that of the informer.
type restricted struct {
	to   extent
	next toolscache.ResourceEventHandler
}

// OnAdd implements ResourceEventHandler.
func (r *restricted) OnAdd(obj any, isInInitialList bool) {
	if r.to.matches(obj) {
		r.next.OnAdd(obj, isInInitialList)
	}
}

// OnUpdate implements ResourceEventHandler.
func (r *restricted) OnUpdate(before, after any) {
	switch r.to.change(before, after) {
	case modified:
		r.next.OnUpdate(before, after)
	case added:
		r.next.OnAdd(after, false)
	case deleted:
		r.next.OnDelete(before)
	}
}

// OnDelete implements ResourceEventHandler.
func (r *restricted) OnDelete(obj any) {
	last := obj
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		last = missed.Obj
	}
	if r.to.matches(last) {
		r.next.OnDelete(obj)
	}
}

// knowing passes on what a handler hears, and keeps what it knows. Its goroutine is that of the informer.
type knowing struct {
	of   *informers.MapEntry
	next toolscache.ResourceEventHandler

	mu    sync.Mutex // guards what follows; not held while the handler runs
	known map[toolscache.ObjectName]types.UID
	form  reflect.Type // of the objects
	busy  bool         // the handler is working on an event
	ended bool         // the lease was released
}

// OnAdd implements ResourceEventHandler.
func (k *knowing) OnAdd(obj any, isInInitialList bool) {
	k.pass(obj, true, func() { k.next.OnAdd(obj, isInInitialList) })
}

// OnUpdate implements ResourceEventHandler.
func (k *knowing) OnUpdate(before, after any) {
	k.pass(after, true, func() { k.next.OnUpdate(before, after) })
}

// OnDelete implements ResourceEventHandler.
func (k *knowing) OnDelete(obj any) {
	last := obj
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		last = missed.Obj
	}
	k.pass(last, false, func() { k.next.OnDelete(obj) })
}

// pass tells of an event, and of the deletions if the lease is released meanwhile.
func (k *knowing) pass(obj any, there bool, tell func()) {
	k.mu.Lock()
	if k.ended {
		k.mu.Unlock()
		return
	}
	k.busy = true
	if m, err := meta.Accessor(obj); err == nil { // else a transform has put something else in its place
		name := toolscache.ObjectName{Namespace: m.GetNamespace(), Name: m.GetName()}
		if k.known[name], k.form = m.GetUID(), reflect.TypeOf(obj); !there {
			delete(k.known, name)
		}
	}
	k.mu.Unlock()
	defer func() { // also if the handler panics
		k.mu.Lock()
		k.busy = false
		ended := k.ended
		k.mu.Unlock()
		if ended {
			k.tellDeletions()
		}
	}()
	tell()
}

// end lets no more events come, and tells of the deletions unless the handler is busy. A nil k knows nothing.
func (k *knowing) end() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.ended = true
	busy := k.busy
	k.mu.Unlock()
	if !busy {
		k.tellDeletions()
	}
}

// tellDeletions is called once, when nothing else reads or changes what the handler knows.
func (k *knowing) tellDeletions() {
	for name, uid := range k.known {
		var obj any = toolscache.DeletedFinalStateUnknown{Key: name.String(), Obj: k.bare(name, uid)}
		if now, there, err := k.of.Informer.GetIndexer().GetByKey(name.String()); err == nil && there {
			if m, err := meta.Accessor(now); err == nil && m.GetUID() == uid {
				obj = now
			}
		}
		k.next.OnDelete(obj)
	}
}

// bare returns an object of which only the key and the UID are known.
func (k *knowing) bare(name toolscache.ObjectName, uid types.UID) any {
	obj, ok := reflect.New(k.form.Elem()).Interface().(client.Object)
	if !ok {
		return nil
	}
	obj.GetObjectKind().SetGroupVersionKind(k.of.Key().GroupVersionKind)
	obj.SetNamespace(name.Namespace)
	obj.SetName(name.Name)
	obj.SetUID(uid)
	return obj
}
