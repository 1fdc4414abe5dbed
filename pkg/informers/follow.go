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
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Change is an event that an informer has received, without its objects.
type Change struct {
	// Type is watch.Added, watch.Modified or watch.Deleted.
	Type watch.EventType
	Key  client.ObjectKey
	// Revision is the resourceVersion of the write, or zero if it is not known.
	Revision uint64
	// Merged says that the change stands for all that happened to the object between two states,
	// because the informer has listed again, or because the events came faster than they were taken.
	Merged bool
}

// Follow calls see for each event from now on, until ctx ends or the informer is removed: in the goroutine
// of the caller, or of an informer that the user made, one call at a time, and none once Follow has
// returned. It makes no object, so it costs next to nothing beside what the informer does anyway. It returns
// the cause of the end, and at once an error if the informer is one that the user made and takes no event
// handler.
func (e *MapEntry) Follow(ctx context.Context, see func(Change)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(e.life.ctx, func() { cancel(errRemoved) })
	defer stop()
	own := e.ours()
	if own == nil {
		return e.followHandler(ctx, see)
	}
	return own.Follow(ctx, func(n informer.Note) {
		namespace, name := object.SplitKey(n.Key)
		see(Change{
			Type: changeTypes[n.Type], Key: client.ObjectKey{Namespace: namespace, Name: name},
			Revision: n.Revision, Merged: n.Merged,
		})
	})
}

// followHandler is Follow for an informer that the user made: it adds an event handler for the time.
func (e *MapEntry) followHandler(ctx context.Context, see func(Change)) error {
	f := &followHandler{see: see}
	added, err := e.Informer.AddEventHandler(f)
	if err != nil {
		return fmt.Errorf("cannot follow the informer of %s, a %T that the option NewInformer made: %w", e, e.Informer, err)
	}
	<-ctx.Done()
	f.end()
	_ = e.Informer.RemoveEventHandler(added) // it fails if the informer has stopped, and the handler with it
	return context.Cause(ctx)
}

// followHandler is the event handler of a Follow. It keeps no object.
type followHandler struct {
	mu    sync.Mutex // guards ended, and is held by see
	ended bool
	see   func(Change)
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
	change := Change{Type: of}
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

// Received returns how many events have told of objects since the informer was made; of one that the user made
// it is not known, and zero.
func (e *MapEntry) Received() uint64 {
	own := e.ours()
	if own == nil {
		return 0
	}
	events := own.Events()
	return events.Added + events.Updated + events.Deleted
}

var changeTypes = map[watchcache.EventType]watch.EventType{
	watchcache.Added: watch.Added, watchcache.Updated: watch.Modified, watchcache.Deleted: watch.Deleted,
}
