// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Follow implements inspected.Informer: in the goroutine of the caller, or of an informer that the user made.
func (e shown) Follow(ctx context.Context, begun func(), see func(inspected.Change)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.life.ctx, func() { cancel(errRemoved) })()
	base := e.base()
	if base == nil {
		return e.followHandler(ctx, begun, see)
	}
	return base.Follow(ctx, begun, func(n informer.Notification) {
		namespace, name := object.SplitKey(n.Key)
		see(inspected.Change{
			Type: changeTypes[n.Type], Key: client.ObjectKey{Namespace: namespace, Name: name},
			Revision: n.Revision, Merged: n.Merged,
		})
	})
}

// followHandler is Follow for an informer that the user made: it adds an event handler for the time.
func (e *MapEntry) followHandler(ctx context.Context, begun func(), see func(inspected.Change)) error {
	f := &followHandler{see: see}
	added, err := e.Informer.AddEventHandler(f)
	if err != nil {
		return fmt.Errorf("cannot follow the informer of %s, a %T that the option NewInformer made: %w", e, e.Informer, err)
	}
	begun()
	<-ctx.Done()
	f.end()
	_ = e.Informer.RemoveEventHandler(added) // it fails if the informer has stopped, and the handler with it
	return context.Cause(ctx)
}

// followHandler is the event handler of a Follow. It keeps no object.
type followHandler struct {
	mu    sync.Mutex // guards ended, and is held by see
	ended bool
	see   func(inspected.Change)
}

func (f *followHandler) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
}

// OnAdd implements ResourceEventHandler. What was there before is no event.
func (f *followHandler) OnAdd(obj any, isInInitialList bool) {
	if !isInInitialList {
		f.tell(watch.Added, obj)
	}
}

// OnUpdate implements ResourceEventHandler. A resync, and a list with what is known, is no event.
func (f *followHandler) OnUpdate(before, obj any) {
	was, err := meta.Accessor(before)
	is, failed := meta.Accessor(obj)
	if err == nil && failed == nil && was.GetResourceVersion() == is.GetResourceVersion() && is.GetResourceVersion() != "" {
		return
	}
	f.tell(watch.Modified, obj)
}

// OnDelete implements ResourceEventHandler.
func (f *followHandler) OnDelete(obj any) { f.tell(watch.Deleted, obj) }

func (f *followHandler) tell(of watch.EventType, obj any) {
	change := inspected.Change{Type: of}
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		change.Merged = true
		change.Key.Namespace, change.Key.Name, _ = toolscache.SplitMetaNamespaceKey(missed.Key)
	} else if m, err := meta.Accessor(obj); err == nil {
		change.Key = client.ObjectKey{Namespace: m.GetNamespace(), Name: m.GetName()}
		change.Revision, _ = strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	} else {
		return // a transform has put something else in its place
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.see(change)
	}
}

// Received implements inspected.Informer.
func (e shown) Received() uint64 {
	base := e.base()
	if base == nil {
		return 0
	}
	events := base.Events()
	return events.Added + events.Updated + events.Deleted
}

var changeTypes = map[watchcache.EventType]watch.EventType{
	watchcache.Added: watch.Added, watchcache.Updated: watch.Modified, watchcache.Deleted: watch.Deleted,
}
