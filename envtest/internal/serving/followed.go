// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Change is an object that was written, or deleted, with the revision at which it was.
type Change struct {
	Name     types.NamespacedName
	Revision int64
	Gone     bool
}

// Knows reports whether an informer's store has a change.
func (c Change) Knows(store cache.Store) (bool, error) {
	key := c.Name.Name
	if c.Name.Namespace != "" {
		key = c.Name.Namespace + "/" + key
	}
	obj, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return c.Gone, err
	}
	return versionOf(obj) >= c.Revision, nil
}

// versionOf is the resource version of an object of an informer, zero if it has none.
func versionOf(obj any) int64 {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return 0
	}
	version, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// Followed is an informer that can be asked whether its store and its handlers know of a change.
type Followed struct {
	cache.SharedIndexInformer

	mu       sync.Mutex
	handlers map[cache.ResourceEventHandlerRegistration]*toldHandler // guarded by mu
}

// toldHandler knows the newest resource version that a handler was told.
type toldHandler struct {
	cache.ResourceEventHandler
	seen atomic.Int64
	// relisted says that a deletion was found in a new list, which does not say at which version it was.
	relisted atomic.Bool
}

func (h *toldHandler) saw(obj any) {
	if _, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		h.relisted.Store(true)
	}
	if version := versionOf(obj); version > h.seen.Load() {
		h.seen.Store(version) // a handler has one caller
	}
}

// OnAdd implements cache.ResourceEventHandler.
func (h *toldHandler) OnAdd(obj any, initial bool) {
	h.ResourceEventHandler.OnAdd(obj, initial)
	h.saw(obj)
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *toldHandler) OnUpdate(before, after any) {
	h.ResourceEventHandler.OnUpdate(before, after)
	h.saw(after)
}

// OnDelete implements cache.ResourceEventHandler.
func (h *toldHandler) OnDelete(obj any) {
	h.ResourceEventHandler.OnDelete(obj)
	h.saw(obj)
}

// AddEventHandler implements cache.SharedInformer.
func (f *Followed) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	outer := &toldHandler{ResourceEventHandler: handler}
	return f.add(outer)(f.SharedIndexInformer.AddEventHandler(outer))
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (f *Followed) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	outer := &toldHandler{ResourceEventHandler: handler}
	return f.add(outer)(f.SharedIndexInformer.AddEventHandlerWithResyncPeriod(outer, period))
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (f *Followed) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	outer := &toldHandler{ResourceEventHandler: handler}
	return f.add(outer)(f.SharedIndexInformer.AddEventHandlerWithOptions(outer, options))
}

func (f *Followed) add(
	outer *toldHandler,
) func(cache.ResourceEventHandlerRegistration, error) (cache.ResourceEventHandlerRegistration, error) {
	return func(registration cache.ResourceEventHandlerRegistration, err error) (cache.ResourceEventHandlerRegistration, error) {
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.handlers == nil {
				f.handlers = map[cache.ResourceEventHandlerRegistration]*toldHandler{}
			}
			f.handlers[registration] = outer
		}
		return registration, err
	}
}

// RemoveEventHandler implements cache.SharedInformer.
func (f *Followed) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	f.mu.Lock()
	delete(f.handlers, registration)
	f.mu.Unlock()
	return f.SharedIndexInformer.RemoveEventHandler(registration)
}

// Await returns when the store and the handlers know of the changes of the kind. An informer that nobody has waited for yet
// begins with them.
func (f *Followed) Await(ctx context.Context, changes []Change) error {
	if len(changes) == 0 || !f.HasSynced() {
		return nil
	}
	last := changes[len(changes)-1].Revision
	return Poll(ctx, func() (bool, error) {
		for len(changes) > 0 {
			known, err := changes[0].Knows(f.GetStore())
			if err != nil || !known {
				return false, err
			}
			changes = changes[1:]
		}
		return f.told(last), nil
	})
}

// told reports whether all handlers have been told of a version.
func (f *Followed) told(version int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, handler := range f.handlers {
		if handler.seen.Load() < version && !handler.relisted.Load() {
			return false
		}
	}
	return true
}
