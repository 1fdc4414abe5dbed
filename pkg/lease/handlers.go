// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	if l.filtered {
		handler = &restricted{l.scope, handler}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil, l.over()
	}
	added, err := l.entry.Informer.AddEventHandlerWithOptions(handler, options)
	if err != nil {
		return nil, err
	}
	l.handlers[added] = struct{}{}
	return added, nil
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
	switch was, is := r.to.matches(before), r.to.matches(after); {
	case was && is:
		r.next.OnUpdate(before, after)
	case is:
		r.next.OnAdd(after, false)
	case was:
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
