// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// registration is an event handler that follows the engine.
type registration struct {
	informer *listened
	handler  toolscache.ResourceEventHandler
	logger   klog.Logger
	cursor   *watchcache.Cursor[object.Object, *delivery]
	replayer *replayer    // of informer.replay
	view     *object.View // nil if the handler gets the objects as they are kept
	unfit    unfit
	resync   time.Duration // zero is never
	removed  atomic.Bool
	calls    *calls
	synced   latch         // closed when the handler has returned from the initial state, or was released
	ended    chan struct{} // closed when no more events come
}

// latch is a channel that several may close.
type latch struct {
	once   *sync.Once
	closed chan struct{}
}

func newLatch() latch { return latch{new(sync.Once), make(chan struct{})} }

func (l latch) close() { l.once.Do(func() { close(l.closed) }) }

var _ toolscache.ResourceEventHandlerRegistration = (*registration)(nil)

// listened is what event handlers need of the informer that they listen to. It does not change, but for events and last, which the first handler makes.
type listened struct {
	form        *object.Form
	description string // of the kind, in logs
	clock       clock.WithTicker
	resyncs     *resyncs
	replay      *sharedReplay
	counts      *counts
	events      context.Context         // of the run, from its first handler on: ends when no event comes any more, and handlers are to be told of those there are
	last        context.CancelCauseFunc // ends events
	ended       chan struct{}           // closed when no handler runs any more
}

// AddEventHandler implements SharedInformer.
func (i *Informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements SharedInformer.
func (i *Informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, resyncPeriod time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions implements SharedInformer. The handler gets the state
// of now first, and then what follows.
func (i *Informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.addHandler(handler, options, nil)
}

// addHandler adds a handler that gets the objects as a view shows them.
func (i *Informer) addHandler(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions, view *object.View) (toolscache.ResourceEventHandlerRegistration, error) {
	if handler == nil {
		return nil, fmt.Errorf("cannot add an event handler to the informer of %s: it is nil", i.description)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run.phase == stopped {
		return nil, fmt.Errorf("handler %v was not added: %w", handler, errInformerStopped)
	}
	r := &registration{
		informer: i.listened,
		handler:  handler,
		view:     view,
		logger:   klog.Background(),
		cursor:   i.engine.MergingCursor(nil),
		calls:    &calls{},
		synced:   newLatch(),
		ended:    make(chan struct{}),
	}
	if options.Logger != nil {
		r.logger = *options.Logger
	}
	wanted := i.resyncs.period
	if options.ResyncPeriod != nil {
		wanted = *options.ResyncPeriod
	}
	r.resync = i.resyncs.admit(wanted, r.logger, i.description)
	if i.run.released && !i.HasSynced() {
		r.synced.close()
	}
	r.replayer = i.replay.join()
	i.handlers[r] = struct{}{}
	i.store.handled.Store(true)
	if i.run.phase == started {
		i.runHandlerLocked(r)
	}
	return r, nil
}

// RemoveEventHandler implements SharedInformer. It is idempotent, and does not wait
// for the handler to return from the event that it may be working on.
func (i *Informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok || r.informer != i.listened {
		return fmt.Errorf("cannot remove the event handler from the informer of %s: its registration (%T) is of another informer", i.description, handle)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.handlers[r]; !ok {
		return nil
	}
	delete(i.handlers, r)
	i.counts.retire(r)
	i.store.handled.Store(len(i.handlers) > 0)
	r.removed.Store(true)
	r.cursor.Close()
	if i.run.phase == created {
		i.replay.leave(r.replayer)
		close(r.ended)
	}
	return nil
}

// ReleaseHandlers lets all handlers count as synced before the first list is complete, later ones
// too. So a program that waits for its handlers goes on without the kind.
func (i *Informer) ReleaseHandlers() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.run.released = true
	for r := range i.handlers {
		r.synced.close()
	}
}

// HasSynced implements ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool {
	select {
	case <-r.synced.closed:
		return true
	default:
		return false
	}
}

// HasSyncedChecker implements ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	name := fmt.Sprintf("%T", r.handler)
	return doneChecker{name: "SharedIndexInformer " + r.informer.description + " + event handler " + name, done: r.synced.closed}
}

// ShutdownChan is closed when the handler has returned from its last event; client-go's
// ShutDownEventHandler waits for it.
func (r *registration) ShutdownChan() <-chan struct{} { return r.ended }

// errLast is the cause with which a wait for events ends when none come any more.
var errLast = errors.New("no events come any more")

// next waits for what there is to tell; see Cursor.Next. After the last event the error is errLast.
func (r *registration) next(ctx context.Context) (watchcache.Batch[object.Object, *delivery], error) {
	batch, err := r.cursor.Next(ctx)
	if !errors.Is(err, errLast) {
		return batch, err
	}
	if batch, err = r.cursor.Poll(); err == nil && batch.Diff == nil && len(batch.Events) == 0 {
		err = errLast
	}
	return batch, err
}

// run passes events to the handler until ctx ends, the handler is removed, or the last event was passed. Events is a context of
// ctx that ends with errLast when no event comes any more.
func (r *registration) run(ctx, events context.Context) {
	defer close(r.ended)
	defer r.cursor.Close()
	defer r.informer.replay.leave(r.replayer)
	resyncs, clock := r.informer.resyncs, r.informer.clock
	due := resyncs.after(clock.Now(), r.resync)
	r.informer.replay.schedule(r.replayer, due)
	until, cancel := untilResync(events, due)
	defer func() { cancel() }()
	for {
		batch, err := r.next(until)
		if err != nil && !errors.Is(err, errResync) {
			return
		}
		if batch.Diff != nil {
			r.tellDiff(ctx, batch.Diff)
		}
		for n := range batch.Events {
			if !r.deliver(ctx, &batch.Events[n]) {
				return
			}
		}
		if events.Err() != nil { // no resync comes any more, also if one is due
			cancel()
			until = events
			continue
		}
		if !due.IsZero() && until.Err() != nil { // also if there are always events to come
			seen := r.cursor.State()
			if seen == nil { // the handler was removed meanwhile
				return
			}
			r.resyncTo(ctx, seen)
			cancel()
			due = resyncs.next(due, clock.Now(), r.resync)
			r.informer.replay.schedule(r.replayer, due)
			until, cancel = untilResync(events, due)
		}
	}
}

// tellDiff passes on the changes that lead from the state that the handler has seen to another.
func (r *registration) tellDiff(ctx context.Context, diff *watchcache.Diff[object.Object, *delivery]) {
	r.informer.replay.begin(r.replayer)
	defer r.informer.replay.endAt(r.replayer, diff.To.Revision())
	var change event // one for all: it is on the heap
	for change = range diff.Events() {
		if !r.deliverChange(ctx, &change) {
			return
		}
	}
	if diff.To.Complete() {
		r.synced.close()
		r.tellDifference(ctx, diff)
	}
}

// DifferenceHandler is an event handler that is told after events of a difference between two states: what came and went between
// them was not told. Has reports whether the newer state, of a revision, has an object; it is good for the call alone. Restored says that
// the source was restored from a backup between the two, so that revisions of before say nothing of those of after.
type DifferenceHandler interface {
	OnDifference(revision uint64, restored bool, has func(namespace, name string) bool)
}

func (r *registration) tellDifference(ctx context.Context, diff *watchcache.Diff[object.Object, *delivery]) {
	handler, ok := r.handler.(DifferenceHandler)
	if !ok {
		return
	}
	r.tell(ctx, "", func() error {
		handler.OnDifference(diff.To.Revision(), diff.From.Restored() != diff.To.Restored(), func(namespace, name string) bool {
			_, there := diff.To.Get(object.Key(namespace, name))
			return there
		})
		return nil
	})
}

// deliverChange passes on a change between two states. If another object is under the key now,
// the handler is told of a deletion and of an addition. client-go's informers pass on an update
// from one to the other; handlers that compare generations drop it, because generations begin anew. The
// event may be changed.
func (r *registration) deliverChange(ctx context.Context, change *event) bool {
	if change.Type == watchcache.Updated && areTwo(change.Previous.Value, change.Item.Value) {
		gone := event{
			Type: watchcache.Deleted, Previous: change.Previous,
			Item: watchcache.Item[object.Object]{Key: change.Item.Key, Revision: change.Item.Revision},
		}
		if !r.deliver(ctx, &gone) {
			return false
		}
		change.Type, change.Previous = watchcache.Added, watchcache.Item[object.Object]{}
	}
	return r.deliver(ctx, change)
}

// areTwo reports whether the values under one key in two states are two objects.
func areTwo(before, after object.Object) bool {
	first, second := before.UID(), after.UID()
	return first != second && first != "" && second != ""
}

// deliver passes one event on, and reports whether more are wanted.
func (r *registration) deliver(ctx context.Context, event *event) bool {
	return r.tell(ctx, event.Item.Key, func() error { return r.tryDeliver(event) })
}

// afterCrash is client-go's: a handler that panics at every event must not keep a core busy.
const afterCrash = time.Second

// tell calls f, which tells the handler of the object under key, and reports whether the handler
// wants to hear more. A handler that panics is treated as client-go treats it: unless the process
// ends, as utilruntime.ReallyCrash says, the event does not come again, and the next one comes
// after a second.
func (r *registration) tell(ctx context.Context, key string, f func() error) (more bool) {
	if r.calls.crashed {
		select {
		case <-r.informer.clock.After(afterCrash):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil || r.removed.Load() {
		return false
	}
	more, r.calls.crashed = true, true
	defer utilruntime.HandleCrashWithLogger(r.logger)
	err := f()
	r.calls.crashed = false
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Cannot read an object out of the cache", "type", r.informer.description, "key", object.StoreKey(key))
	}
	return more
}

func (r *registration) tryDeliver(event *event) error {
	var shared objects
	if event.Attached != nil {
		shared = event.Attached.as(r.view)
	} else { // the event is of a Diff
		shared = r.informer.replay.deliver(r.replayer, event, r.view)
	}
	switch event.Type {
	case watchcache.Added:
		current, err := shared.after(event)
		if err != nil {
			return err
		}
		r.add(current)
	case watchcache.Updated:
		// An event of the watch without a new version is the state that the handler has seen; client-go's informer tells of it
		// only those that resync just then. Between two states an equal version may be another one, after a restore.
		if event.Attached != nil && event.Item.Revision == event.Previous.Revision && event.Item.Revision != 0 {
			return nil
		}
		return r.update(event, shared)
	case watchcache.Deleted:
		r.delete(event, shared)
	}
	return nil
}

func (r *registration) add(current any) {
	initial, begin := !r.HasSynced(), r.calls.begin()
	r.handler.OnAdd(current, initial)
	r.calls.end(begin)
}

// update tells the handler of an update. If the object does not fit any more, the handler is not told, and the
// error is returned. When the object fits again, the handler gets the update from the state that it was told of
// last. client-go's informer does the same: it goes on when all objects fit.
func (r *registration) update(event *event, shared objects) error {
	previous, unknown := shared.before(event)
	if unknown != nil {
		previous = r.unfit.last(r.informer.form, r.view, event.Item.Key)
	}
	current, err := shared.after(event)
	switch {
	case err != nil && unknown == nil:
		r.unfit.add(event.Item.Key, event.Previous.Value)
		return err
	case err != nil:
		return err
	}
	r.unfit.remove(event.Item.Key)
	if previous == nil {
		r.add(current)
		return nil
	}
	begin := r.calls.begin()
	r.handler.OnUpdate(previous, current)
	r.calls.end(begin)
	return nil
}

// delete tells the handler of a deletion, unless it was never told of the object, because that has never fitted.
func (r *registration) delete(event *event, shared objects) {
	defer r.unfit.remove(event.Item.Key)
	last, err := shared.after(event)
	if last == nil || err != nil {
		previous, err := shared.before(event)
		if err != nil {
			previous = r.unfit.last(r.informer.form, r.view, event.Item.Key)
		}
		if previous == nil {
			return
		}
		last = toolscache.DeletedFinalStateUnknown{Key: object.StoreKey(event.Item.Key), Obj: previous}
	}
	begin := r.calls.begin()
	r.handler.OnDelete(last)
	r.calls.end(begin)
}

// resyncTo tells the handler of every object again.
func (r *registration) resyncTo(ctx context.Context, state *snapshot) {
	r.informer.replay.beginResync(r.replayer)
	defer r.informer.replay.end(r.replayer)
	again := event{Type: watchcache.Added} // one for all: it is on the heap
	tell := func() error {
		obj, err := r.informer.replay.deliver(r.replayer, &again, r.view).after(&again)
		if err == nil {
			begin := r.calls.begin()
			r.handler.OnUpdate(obj, obj)
			r.calls.end(begin)
		}
		return err
	}
	for again.Item = range state.Items("", "") {
		if !r.tell(ctx, again.Item.Key, tell) {
			return
		}
	}
}
