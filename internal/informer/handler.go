// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// registration is an event handler that follows the engine.
type registration struct {
	informer     *Informer
	handler      toolscache.ResourceEventHandler
	logger       klog.Logger
	subscription *watchcache.Subscription[object.Object, *delivery]
	resync       time.Duration // zero is never
	removed      atomic.Bool
	lagged       uint64        // how often that was counted; of run
	crashed      bool          // the handler panicked at the event before; of run
	synced       chan struct{} // closed when the handler has returned from the initial state
	ended        chan struct{} // closed when no more events come
}

var _ toolscache.ResourceEventHandlerRegistration = (*registration)(nil)

// minimumResync is client-go's: handlers must not be kept busy by resyncs.
const minimumResync = time.Second

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
	if handler == nil {
		return nil, fmt.Errorf("cannot add an event handler to the informer of %s: it is nil", i.description)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase == stopped {
		return nil, fmt.Errorf("handler %v was not added: %w", handler, errInformerStopped)
	}
	r := &registration{
		informer:     i,
		handler:      handler,
		logger:       klog.Background(),
		subscription: i.engine.Subscribe(nil),
		synced:       make(chan struct{}),
		ended:        make(chan struct{}),
	}
	if options.Logger != nil {
		r.logger = *options.Logger
	}
	wanted := i.resyncPeriod
	if options.ResyncPeriod != nil {
		wanted = *options.ResyncPeriod
	}
	r.resync = i.resyncPeriodLocked(wanted, r.logger)
	i.handlers[r] = struct{}{}
	if i.phase == started {
		ctx := i.ctx
		i.running.Go(func() { r.run(ctx) })
	}
	return r, nil
}

// resyncPeriodLocked returns the period at which a handler is resynced that wants to
// be at another. The rules are client-go's: a second at least; before the start the
// shortest period decides how often is checked, afterwards that is fixed.
func (i *Informer) resyncPeriodLocked(wanted time.Duration, logger klog.Logger) time.Duration {
	if wanted <= 0 {
		return 0
	}
	if i.checkPeriod == 0 {
		logger.Info("Warning: the handler asks for resyncs, the informer has none", "type", i.description, "period", wanted)
		return 0
	}
	period := max(wanted, minimumResync)
	if period < i.checkPeriod {
		if i.phase == created {
			i.checkPeriod = period
		} else {
			period = i.checkPeriod
		}
	}
	if period != wanted {
		logger.Info("Warning: the handler's resync period is too short", "type", i.description, "wanted", wanted, "period", period)
	}
	return period
}

// RemoveEventHandler implements SharedInformer. It is idempotent, and does not wait
// for the handler to return from the event that it may be working on.
func (i *Informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok || r.informer != i {
		return fmt.Errorf("cannot remove the event handler from the informer of %s: its registration (%T) is of another informer", i.description, handle)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.handlers[r]; !ok {
		return nil
	}
	delete(i.handlers, r)
	r.removed.Store(true)
	r.subscription.Close()
	if i.phase == created {
		close(r.ended)
	}
	return nil
}

// HasSynced implements ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return toolscache.IsDone(r.HasSyncedChecker()) }

// HasSyncedChecker implements ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	name := fmt.Sprintf("%T", r.handler)
	return doneChecker{name: "SharedIndexInformer " + r.informer.description + " + event handler " + name, done: r.synced}
}

// ShutdownChan is closed when the handler has returned from its last event; client-go's
// ShutDownEventHandler waits for it.
func (r *registration) ShutdownChan() <-chan struct{} { return r.ended }

// run passes events to the handler until ctx ends or the handler is removed.
func (r *registration) run(ctx context.Context) {
	defer close(r.ended)
	defer r.subscription.Close()
	due := r.dueAfter(r.informer.clock.Now())
	until, cancel := untilResync(ctx, due)
	defer func() { cancel() }()
	for {
		batch, err := r.subscription.Next(until)
		if err != nil && !errors.Is(err, errResync) {
			return
		}
		if batch.Diff != nil {
			r.catchUp(ctx, batch.Diff)
		}
		for n := range batch.Events {
			if !r.deliver(ctx, &batch.Events[n]) {
				return
			}
		}
		if !due.IsZero() && until.Err() != nil { // also if there are always events to come
			r.resyncTo(ctx, r.subscription.State())
			cancel()
			due = r.dueNext(due)
			until, cancel = untilResync(ctx, due)
		}
	}
}

// dueAfter returns when the next resync is due: after the handler's period, at the
// next time at which the informer resyncs; zero is never.
func (r *registration) dueAfter(now time.Time) time.Time {
	i := r.informer
	i.mu.Lock()
	begin, check := i.begin, i.checkPeriod
	i.mu.Unlock()
	if r.resync == 0 || check == 0 {
		return time.Time{}
	}
	checks := (now.Add(r.resync).Sub(begin) + check - 1) / check
	return begin.Add(checks * check)
}

// dueNext returns when the resync after the one that was due is due: those that the
// handler was too slow for are left out.
func (r *registration) dueNext(due time.Time) time.Time {
	for now := r.informer.clock.Now(); !due.After(now); {
		due = r.dueAfter(due) // not after now, which is later: that would leave one out
	}
	return due
}

// errResync is the cause for which waiting for events ends when a resync is due.
var errResync = errors.New("resync")

// untilResync returns a context that ends with ctx, or when the next resync is due.
func untilResync(ctx context.Context, due time.Time) (context.Context, context.CancelFunc) {
	if due.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, due, errResync)
}

// catchUp passes on what leads from the state that the handler has seen to another.
func (r *registration) catchUp(ctx context.Context, diff *watchcache.Diff[object.Object, *delivery]) {
	for lagged := r.subscription.Lagged(); r.lagged < lagged; r.lagged++ {
		r.informer.lagged()
	}
	for event := range diff.Events() {
		if !r.deliverChange(ctx, event) {
			return
		}
	}
	if diff.To.Complete() && !r.HasSynced() {
		close(r.synced)
	}
}

// deliverChange is deliver for a change between two states. If what is there now is another object
// than before, one was deleted and one was created: an update from one to the other, which
// client-go's informers pass on, is dropped by handlers that compare generations, which begin
// anew.
func (r *registration) deliverChange(ctx context.Context, change watchcache.Event[object.Object, *delivery]) bool {
	if change.Type == watchcache.Updated && areTwo(change.Previous.Value, change.Item.Value) {
		gone := watchcache.Event[object.Object, *delivery]{
			Type: watchcache.Deleted, Previous: change.Previous,
			Item: watchcache.Item[object.Object]{Key: change.Item.Key, Revision: change.Item.Revision},
		}
		if !r.deliver(ctx, &gone) {
			return false
		}
		change.Type, change.Previous = watchcache.Added, watchcache.Item[object.Object]{}
	}
	return r.deliver(ctx, &change)
}

// areTwo reports whether two states under one key are of two objects.
func areTwo(before, after object.Object) bool {
	first, second := before.UID(), after.UID()
	return first != second && first != "" && second != ""
}

// deliver passes one event on, and reports whether more are wanted.
func (r *registration) deliver(ctx context.Context, event *watchcache.Event[object.Object, *delivery]) bool {
	return r.tell(ctx, event.Item.Key, func() error { return r.tryDeliver(event) })
}

// afterCrash is client-go's: a handler that panics at every event must not do so all the time.
const afterCrash = time.Second

// tell calls f, which tells the handler of the object under key, and reports whether the handler
// wants to hear more. A handler that panics is treated as by client-go: unless
// utilruntime.ReallyCrash says that the process ends, it is not told of that object again, and
// of the next one after a second.
func (r *registration) tell(ctx context.Context, key string, f func() error) (more bool) {
	if r.crashed {
		select {
		case <-r.informer.clock.After(afterCrash):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil || r.removed.Load() {
		return false
	}
	more, r.crashed = true, true
	defer utilruntime.HandleCrashWithLogger(r.logger)
	err := f()
	r.crashed = false
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Cannot read an object out of the cache", "type", r.informer.description, "key", object.StoreKey(key))
	}
	return more
}

func (r *registration) tryDeliver(event *watchcache.Event[object.Object, *delivery]) error {
	shared := event.Attached
	if shared == nil { // the event is of a Diff
		shared = newDelivery(r.informer.form, nil)
		if event.Type != watchcache.Deleted {
			current, err := r.informer.form.Materialize(event.Item.Value)
			if err != nil {
				return err
			}
			shared.current = current
		}
	}
	switch event.Type {
	case watchcache.Added:
		r.handler.OnAdd(shared.current, !r.HasSynced())
	case watchcache.Updated:
		if event.Item.Revision == event.Previous.Revision && event.Item.Revision != 0 {
			return nil
		}
		previous, err := shared.before(event)
		if err != nil {
			return err
		}
		r.handler.OnUpdate(previous, shared.current)
	case watchcache.Deleted:
		if shared.current != nil {
			r.handler.OnDelete(shared.current)
			return nil
		}
		previous, err := shared.before(event)
		if err != nil {
			return err
		}
		r.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: object.StoreKey(event.Item.Key), Obj: previous})
	}
	return nil
}

// resyncTo tells the handler of every object again.
func (r *registration) resyncTo(ctx context.Context, state *watchcache.Snapshot[object.Object]) {
	for item := range state.Items("", "") {
		again := func() error {
			obj, err := r.informer.form.Materialize(item.Value)
			if err == nil {
				r.handler.OnUpdate(obj, obj)
			}
			return err
		}
		if !r.tell(ctx, item.Key, again) {
			return
		}
	}
}
