// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/stats"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Informer is client-go's SharedIndexInformer on the engine of package watchcache.
//
// client-go's Reflector lists and watches, or the source does by its method Follow, and what comes is written into the engine; each event
// handler follows the engine in a goroutine of its own. These are the differences from client-go's informer:
//
//   - A handler that is slower than the stream takes no memory that grows, and delays no other
//     handler, but for a moment, once, while they share the replay of a whole state. Once it is more events behind than the window has, it gets one
//     event for each object that has changed since the state that it has seen. A deleted
//     object comes as a DeletedFinalStateUnknown; if a new object is under its key, that
//     one is added after it.
//   - Objects may be kept flat, see package object. The store then makes an object when it
//     is read, and handlers get objects that were made for the event. Handlers share them,
//     as with client-go, and must not change them.
//
// All methods are safe for concurrent use. RunWithContext owns the goroutines of the handlers, and
// returns when they have ended.
type Informer struct {
	*listened
	lw       toolscache.ListerWatcher
	engine   *engine
	store    *reflectorStore
	indexers *indexers
	synced   chan struct{} // closed when the first list is in the engine
	example  runtime.Object

	mu           sync.Mutex // guards what follows
	run          run
	onWatchError toolscache.WatchErrorHandlerWithContext
	handlers     map[*registration]struct{}

	running sync.WaitGroup // the goroutines of the handlers, and of the Reflector's waits
}

var (
	_ toolscache.SharedIndexInformer = (*Informer)(nil)
	_ postings.Informer              = (*Informer)(nil)
)

// run is the one run of an informer.
type run struct {
	phase     phase
	ctx       context.Context       // that RunWithContext was given; set when it starts
	reflector *toolscache.Reflector // the newest; nil before the first is needed, and after a list without it
	dormancy  *dormancy             // has a lock of its own
	released  bool                  // handlers count as synced
}

// phase is where an informer is in its life.
type phase int

const (
	created phase = iota
	started
	stopped
)

// ListerWatcherFunc makes the ListerWatcher of an informer, as a rule one of package listwatch. Its lists and watches must have objects
// of the kind alone, because the informer does not check that. It sends what a Receiver makes of the events of a watch in place of
// the events.
type ListerWatcherFunc func(Receiver) toolscache.ListerWatcher

// Receiver makes of a received object what an informer keeps of it. That takes time, and the source
// may call the functions for several events at once. A source that does not call them leaves the
// work to the goroutine of the Reflector.
type Receiver struct {
	// Each returns the event to send in place of an event whose object is decoded.
	Each func(watch.Event) watch.Event
	// Message returns the object to send in place of a protobuf message that the source has not
	// decoded. It returns nil if the source must decode it and call Each. It does not keep the
	// message.
	Message func(t watch.EventType, message []byte) runtime.Object
}

// Options configure an [Informer]. Example must be set.
type Options struct {
	// Example is an empty object of the kind.
	Example runtime.Object
	// Description names the kind in logs.
	Description string
	// ResyncPeriod is the time between two resyncs of a handler that asks for no other
	// period; zero is never. A resync tells the handler of every object again.
	ResyncPeriod time.Duration
	// Indexers are as in client-go.
	Indexers toolscache.Indexers
	// NamespaceIndex adds the index toolscache.NamespaceIndex to them. It takes no memory:
	// the order of the objects answers it.
	NamespaceIndex bool
	// Decoded keeps the objects decoded.
	Decoded bool
	// Verify compares each object that is kept flat with its source, for tests.
	Verify bool
	// Window is how many events a handler may be behind and still get each of them; zero
	// means watchcache.DefaultWindow.
	Window int
	// Observer is told what happens to the informer.
	Observer
	// Identifier is the name under which client-go publishes the version of the store.
	Identifier toolscache.InformerNameAndResource
}

// Observer has functions that an informer calls. A nil function is not called. They must not block,
// and not make the informer dormant.
type Observer struct {
	// Listed is called each time that a list is in the engine.
	Listed func()
	// Lost is called each time that an object was lost because its transform failed, or that an index
	// lacks one because its function failed, and when one of them is there.
	Lost func()
	// WentBack is called when the source is at an older version than the state: a new list
	// follows, or has come.
	WentBack func(from, to uint64)
}

func (o Observer) complete() Observer {
	if o.Listed == nil {
		o.Listed = func() {}
	}
	if o.Lost == nil {
		o.Lost = func() {}
	}
	if o.WentBack == nil {
		o.WentBack = func(uint64, uint64) {}
	}
	return o
}

// New returns an informer of what source lists and watches.
func New(source ListerWatcherFunc, o Options) (*Informer, error) {
	var i *Informer
	form := object.NewForm(object.Options{
		Type: reflect.TypeOf(o.Example), Decoded: o.Decoded, Verify: o.Verify,
		FieldFailed: func(obj client.Object, reason any) { i.store.losses.unindexed.add(obj, reason) },
	})
	o.Observer = o.Observer.complete()
	if o.Description == "" {
		o.Description = fmt.Sprintf("%T", o.Example)
	}
	i = &Informer{
		listened: &listened{
			form: form, description: o.Description, clock: clock.RealClock{},
			resyncs: newResyncs(o.ResyncPeriod), replay: newSharedReplay(form), counts: &counts{}, ended: make(chan struct{}),
		},
		engine:       watchcache.New[object.Object, *delivery](watchcache.Options[object.Object]{Window: o.Window, Values: Values(form), Now: stats.Now}),
		synced:       make(chan struct{}),
		example:      o.Example,
		onWatchError: toolscache.DefaultWatchErrorHandler,
		handlers:     map[*registration]struct{}{},
		run:          run{dormancy: &dormancy{}},
	}
	synced := sync.OnceFunc(func() { close(i.synced) })
	listed := func() {
		i.counts.listed(i.clock.Now())
		o.Listed()
		synced()
	}
	i.store = newReflectorStore(i.engine, form, &o, i.replay.expect, func() { i.run.dormancy.unlessLeft(listed) })
	i.store.progress.synced, i.store.progress.counts, i.store.progress.abort = synced, i.counts, i.run.dormancy.abort
	i.indexers = newIndexers(o.NamespaceIndex, o.Description, i.store.declare)
	i.lw = source(Receiver{Each: i.store.decode, Message: i.store.keepMessage})
	return i, i.AddIndexers(o.Indexers)
}

// Engine returns the engine that the informer writes to, for readers.
func (i *Informer) Engine() *engine { return i.engine }

// Example returns an empty object of the kind, which must not be changed.
func (i *Informer) Example() runtime.Object { return i.example }

// Form returns the form in which the objects are kept in the engine.
func (i *Informer) Form() *object.Form { return i.form }

// Keep returns what the informer would keep of an object if it received it. The object must not be
// changed any more.
func (i *Informer) Keep(obj any) (watchcache.Item[object.Object], error) {
	obj, _, err := i.store.receive(obj)
	if err != nil {
		return watchcache.Item[object.Object]{}, err
	}
	return item(i.form.Keep(obj)), nil
}

// Run implements SharedInformer.
func (i *Informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext implements SharedInformer: it returns when ctx has ended, or after Leave, and every
// handler has returned from its last event.
func (i *Informer) RunWithContext(ctx context.Context) {
	if !i.start(ctx) {
		klog.FromContext(ctx).Info("Warning: the informer has started before, to run it again does nothing", "type", i.description)
		return
	}
	i.listAndWatch(ctx)
	i.mu.Lock()
	i.run.phase = stopped
	i.mu.Unlock()
	i.indexers.close()
	if i.run.dormancy.isOver() && i.last != nil { // handlers end when they were told of everything
		i.last(errLast)
	}
	i.running.Wait()
	close(i.ended)
}

// start begins the run, and runs the handlers that there are.
func (i *Informer) start(ctx context.Context) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run.phase != created {
		return false
	}
	i.run.phase, i.run.ctx = started, ctx
	i.resyncs.start(i.clock.Now())
	i.counts.begun.Store(i.clock.Now().UnixNano())
	for r := range i.handlers {
		i.runHandlerLocked(r)
	}
	return true
}

// runHandlerLocked runs a handler of an informer that has started.
func (i *Informer) runHandlerLocked(r *registration) {
	if i.events == nil {
		i.events, i.last = context.WithCancelCause(i.run.ctx)
	}
	ctx, events := i.run.ctx, i.events
	i.running.Go(func() { r.run(ctx, events) })
}

var (
	errStarted         = errors.New("informer has already started")
	errInformerStopped = errors.New("the informer has stopped already")
)

// SetWatchErrorHandler implements SharedInformer.
func (i *Informer) SetWatchErrorHandler(handler toolscache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext implements SharedInformer.
func (i *Informer) SetWatchErrorHandlerWithContext(handler toolscache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run.phase != created {
		return errStarted
	}
	i.onWatchError = handler
	return nil
}

// SetTransform implements SharedInformer.
func (i *Informer) SetTransform(transform toolscache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run.phase != created {
		return errStarted
	}
	i.store.transform = transform
	return nil
}

// HasSynced implements SharedInformer.
func (i *Informer) HasSynced() bool { return toolscache.IsDone(i.HasSyncedChecker()) }

// HasSyncedChecker implements SharedInformer.
func (i *Informer) HasSyncedChecker() toolscache.DoneChecker {
	return doneChecker{name: "SharedIndexInformer " + i.description, done: i.synced}
}

type doneChecker struct {
	name string
	done <-chan struct{}
}

func (d doneChecker) Name() string          { return d.name }
func (d doneChecker) Done() <-chan struct{} { return d.done }

// LastSyncResourceVersion implements SharedInformer.
func (i *Informer) LastSyncResourceVersion() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run.reflector != nil && i.run.reflector.LastSyncResourceVersion() != "" { // otherwise it has not listed yet
		return i.run.reflector.LastSyncResourceVersion()
	}
	return (&engineIndexer{engine: i.engine}).LastStoreSyncResourceVersion()
}

// IsStopped implements SharedInformer.
func (i *Informer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.run.phase == stopped
}

// AddIndexers implements SharedIndexInformer.
func (i *Informer) AddIndexers(indexers toolscache.Indexers) error { return i.indexers.add(indexers) }

// AddField implements postings.Informer.
func (i *Informer) AddField(name string, extract client.IndexerFunc) error {
	return i.indexers.addField(name, extract)
}

// Objects iterates over the present objects in the order of their keys. Each is made when the iteration
// comes to it, and must not be changed.
func (i *Informer) Objects() iter.Seq[client.Object] {
	snapshot := i.engine.Snapshot()
	return func(yield func(client.Object) bool) {
		for item := range snapshot.Items("", "") {
			made, err := i.form.Materialize(item.Value)
			if obj, ok := made.(client.Object); err == nil && ok && !yield(obj) {
				return
			}
		}
	}
}

// GetStore implements SharedInformer.
func (i *Informer) GetStore() toolscache.Store { return i.GetIndexer() }

// GetIndexer implements SharedIndexInformer. The Indexer is a view of the engine.
func (i *Informer) GetIndexer() toolscache.Indexer {
	return &engineIndexer{engine: i.engine, form: i.form, indexers: i.indexers, write: i.store.write}
}

// GetController implements SharedInformer.
func (i *Informer) GetController() toolscache.Controller { return controller{i} }

// controller is the part of an informer that the interface asks for under this
// name; to run it does nothing.
type controller struct{ *Informer }

func (controller) Run(<-chan struct{})            {}
func (controller) RunWithContext(context.Context) {}
