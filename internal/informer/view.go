// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
)

// View is a SharedIndexInformer that shows the objects of an [Informer] in a Go type. It neither
// lists nor watches, and keeps no object: its handlers, its store and its indexes are those of the
// Informer, with an object made for each event and each read. Handlers of one view share the objects
// that they get. All methods are safe for concurrent use.
//
// To run a View is to wait until the context ends; then its handlers are removed. The Informer goes
// on. The Informer is run, and its transform and its handler of errors are set, by its owner.
type View struct {
	base     *Informer
	as       *object.View // nil if the objects are shown as they are kept
	indexers *indexers
	unfit    string // the index of the objects that the view cannot show; made with the first index

	mu       sync.Mutex // guards what follows; it comes before the locks of base
	phase    phase
	handlers map[*registration]struct{}
}

var (
	_ toolscache.SharedIndexInformer = (*View)(nil)
	_ postings.Informer              = (*View)(nil)
)

// NewView returns a view of the objects of base as the type of example. Space begins the names of its
// indexes in the engine, but for those of fields, whose names the caller makes unique; no other view of
// base has the same space. The error says that the objects cannot be shown so.
func NewView(base *Informer, example client.Object, space string) (*View, error) {
	as, err := base.form.As(reflect.TypeOf(example))
	if err != nil {
		return nil, err
	}
	v := &View{base: base, as: as, handlers: map[*registration]struct{}{}}
	declare := base.store.declare
	if as != nil {
		v.unfit = postings.Unfit(space)
		declare = v.declare
	}
	v.indexers = newIndexers(base.indexers.byNamespace, base.description, declare)
	v.indexers.space = space
	return v, nil
}

// declare adds an index of the objects as the view shows them to the engine. Before the first one it adds the
// index of the objects that the view cannot show.
func (v *View) declare(name string, extract func(client.Object) []string) {
	v.base.store.declareAll(func() {
		v.as.DeclareUnfit(v.unfit)
		v.as.Declare(name, extract)
	}, v.unfit, name)
}

// Close takes the indexes of the view away, and later ones are refused. It does not wait for the handlers of
// the view to end, as RunWithContext does.
func (v *View) Close() {
	if names := v.indexers.close(); len(names) > 0 {
		v.base.store.undeclare(append(names, v.unfit)...)
	}
}

// Base returns the informer whose objects the view shows.
func (v *View) Base() *Informer { return v.base }

// As returns how the view shows the objects of the Informer; nil is as they are kept.
func (v *View) As() *object.View { return v.as }

// AddEventHandler implements SharedInformer.
func (v *View) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements SharedInformer.
func (v *View) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements SharedInformer.
func (v *View) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.phase == stopped {
		return nil, fmt.Errorf("handler %v was not added: %w", handler, errInformerStopped)
	}
	added, err := v.base.addHandler(handler, options, v.as)
	if err != nil {
		return nil, err
	}
	v.handlers[added.(*registration)] = struct{}{}
	return added, nil
}

// RemoveEventHandler implements SharedInformer. It is idempotent.
func (v *View) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	if r, ok := handle.(*registration); ok {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.handlers, r)
	}
	return v.base.RemoveEventHandler(handle)
}

// Run implements SharedInformer.
func (v *View) Run(stop <-chan struct{}) { v.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext implements SharedInformer: it returns when ctx has ended and every handler of the
// view has returned from its last event.
func (v *View) RunWithContext(ctx context.Context) {
	v.mu.Lock()
	again := v.phase != created
	v.phase = max(v.phase, started)
	v.mu.Unlock()
	if again {
		klog.FromContext(ctx).Info("Warning: the informer has started before, to run it again does nothing", "type", v.base.description)
		return
	}
	<-ctx.Done()
	for _, r := range v.stop() {
		_ = v.base.RemoveEventHandler(r)
		<-r.ended
	}
}

// stop takes no handlers from now on, and returns those there are.
func (v *View) stop() []*registration {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.phase = stopped
	return slices.Collect(maps.Keys(v.handlers))
}

// IsStopped implements SharedInformer.
func (v *View) IsStopped() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.phase == stopped
}

// errOwner is the error of a setting that the Informer below a view has.
var errOwner = errors.New("several representations of the kind share one watch, which has been set up already")

// SetWatchErrorHandler implements SharedInformer: it is an error.
func (v *View) SetWatchErrorHandler(toolscache.WatchErrorHandler) error { return errOwner }

// SetWatchErrorHandlerWithContext implements SharedInformer: it is an error.
func (v *View) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errOwner
}

// SetTransform implements SharedInformer: it is an error.
func (v *View) SetTransform(toolscache.TransformFunc) error { return errOwner }

// HasSynced implements SharedInformer.
func (v *View) HasSynced() bool { return v.base.HasSynced() }

// HasSyncedChecker implements SharedInformer.
func (v *View) HasSyncedChecker() toolscache.DoneChecker { return v.base.HasSyncedChecker() }

// LastSyncResourceVersion implements SharedInformer.
func (v *View) LastSyncResourceVersion() string { return v.base.LastSyncResourceVersion() }

// AddIndexers implements SharedIndexInformer.
func (v *View) AddIndexers(indexers toolscache.Indexers) error {
	if v.IsStopped() {
		return fmt.Errorf("indexer was not added: %w", errInformerStopped)
	}
	return v.indexers.add(indexers)
}

// AddField implements postings.Informer. No field of another view may have the name.
func (v *View) AddField(name string, extract client.IndexerFunc) error {
	if v.IsStopped() {
		return errInformerStopped
	}
	return v.indexers.addField(name, extract)
}

// Objects iterates over the present objects in the order of their keys, without those that do not fit the
// view's type. Each is made when the iteration comes to it, and must not be changed.
func (v *View) Objects() iter.Seq[client.Object] {
	return func(yield func(client.Object) bool) {
		for kept := range v.base.Objects() {
			made, err := v.as.Of(kept)
			if obj, ok := made.(client.Object); err == nil && ok && !yield(obj) {
				return
			}
		}
	}
}

// GetStore implements SharedInformer.
func (v *View) GetStore() toolscache.Store { return v.GetIndexer() }

// GetIndexer implements SharedIndexInformer. The Indexer cannot be written to.
func (v *View) GetIndexer() toolscache.Indexer {
	return &engineIndexer{engine: v.base.engine, form: v.base.form, indexers: v.indexers, as: v.as, unfit: v.unfit}
}

// GetController implements SharedInformer.
func (v *View) GetController() toolscache.Controller { return v.base.GetController() }
