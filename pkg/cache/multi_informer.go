// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// multiInformer joins the informers of one kind in several namespaces into one Informer.
type multiInformer struct {
	*allDone
	entries []*informers.MapEntry
}

var _ Informer = (*multiInformer)(nil)

// newMultiInformer joins entries. The map owner runs the goroutines that wait for them.
func newMultiInformer(owner *informers.Map, entries []*informers.MapEntry) *multiInformer {
	checkers := make([]syncing, len(entries))
	for i, entry := range entries {
		checkers[i] = syncing{DoneChecker: entry.Informer.HasSyncedChecker()}
	}
	return &multiInformer{entries: entries, allDone: newAllDone(owner, fixed(checkers))}
}

// AddEventHandler implements Informer.
func (i *multiInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements Informer.
func (i *multiInformer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, resyncPeriod time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions implements Informer. It adds the handler to all informers or, if one
// of them returns an error, to none.
func (i *multiInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	handles := make([]toolscache.ResourceEventHandlerRegistration, 0, len(i.entries))
	checkers := make([]syncing, 0, len(i.entries))
	for _, entry := range i.entries {
		handle, err := entry.Informer.AddEventHandlerWithOptions(handler, options)
		if err != nil {
			return nil, errors.Join(err, i.remove(handles))
		}
		handles = append(handles, handle)
		checkers = append(checkers, syncing{DoneChecker: handle.HasSyncedChecker()})
	}
	return &multiRegistration{
		of:      i.entries,
		handles: handles,
		allDone: newAllDone(i.owner, fixed(checkers)),
	}, nil
}

// RemoveEventHandler implements Informer. It is idempotent.
func (i *multiInformer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*multiRegistration)
	if !ok || !slices.Equal(r.of, i.entries) {
		return errors.New("cannot remove the event handler: its registration is of another informer")
	}
	return i.remove(r.handles)
}

// remove removes handlers from the first informers. The handles are in the order of the informers.
func (i *multiInformer) remove(handles []toolscache.ResourceEventHandlerRegistration) error {
	var errs []error
	for n, handle := range handles {
		errs = append(errs, i.entries[n].Informer.RemoveEventHandler(handle))
	}
	return errors.Join(errs...)
}

// AddIndexers implements Informer.
func (i *multiInformer) AddIndexers(indexers toolscache.Indexers) error {
	for _, entry := range i.entries {
		if err := entry.Informer.AddIndexers(indexers); err != nil {
			return err
		}
	}
	return nil
}

// IsStopped implements Informer. It reports whether all informers have stopped.
func (i *multiInformer) IsStopped() bool {
	return !slices.ContainsFunc(i.entries, func(e *informers.MapEntry) bool { return !e.Informer.IsStopped() })
}

// multiRegistration is the registration of one handler with several informers.
type multiRegistration struct {
	*allDone
	of      []*informers.MapEntry
	handles []toolscache.ResourceEventHandlerRegistration // one for each entry in of
}

// syncing is what syncs, unless it leaves.
type syncing struct {
	toolscache.DoneChecker
	left <-chan struct{} // nil if it cannot leave
}

func (s syncing) isDone() bool {
	select {
	case <-s.left:
		return true
	default:
		return toolscache.IsDone(s.DoneChecker)
	}
}

// fixed returns what always returns the same.
func fixed(checkers []syncing) func() []syncing { return func() []syncing { return checkers } }

// allDone is done when all its checkers are done. When those of now are done, there may be others.
type allDone struct {
	checkers func() []syncing
	owner    *informers.Map // of the goroutine that waits
	wait     sync.Once
	done     chan struct{}
}

func newAllDone(owner *informers.Map, checkers func() []syncing) *allDone {
	return &allDone{owner: owner, checkers: checkers, done: make(chan struct{})}
}

// HasSynced reports whether all checkers are done, without waiting. It looks twice: when the first are done there may be others.
func (d *allDone) HasSynced() bool {
	for range 2 {
		if slices.ContainsFunc(d.checkers(), func(s syncing) bool { return !s.isDone() }) {
			return false
		}
	}
	return true
}

// HasSyncedChecker returns d itself.
func (d *allDone) HasSyncedChecker() toolscache.DoneChecker { return d }

// Name implements toolscache.DoneChecker.
func (d *allDone) Name() string {
	checkers := d.checkers()
	names := make([]string, len(checkers))
	for i, c := range checkers {
		names[i] = c.Name()
	}
	return strings.Join(names, ", ")
}

// Done implements toolscache.DoneChecker. The goroutine that closes the channel
// belongs to the cache and ends with it.
func (d *allDone) Done() <-chan struct{} {
	d.wait.Do(func() {
		d.owner.Go(func(ctx context.Context) {
			for !d.HasSynced() {
				for _, c := range d.checkers() {
					select {
					case <-c.Done():
					case <-c.left:
					case <-ctx.Done():
						return
					}
				}
			}
			close(d.done)
		})
	})
	return d.done
}
