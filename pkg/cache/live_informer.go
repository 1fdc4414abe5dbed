// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// liveInformer is what the program wants of a kind in the namespaces of now, and of later.
type liveInformer struct {
	of  *liveScopes
	key informers.Key

	indexes []func(*liveEntry) error // declare one each; belong to the turn

	entries  []*liveEntry // in the maps of now; of.mu guards it, and handlers
	handlers map[*liveRegistration]struct{}
}

// liveEntry is an informer in one namespace.
type liveEntry struct {
	*informers.MapEntry
	in *informers.Map
}

// want returns what the program wants of a kind from now on, with the informers of now. The caller has the turn.
func (l *liveScopes) want(ctx context.Context, key informers.Key) (*liveInformer, error) {
	l.mu.Lock()
	wanted := l.wanted[key]
	l.mu.Unlock()
	if wanted != nil {
		return wanted, nil
	}
	wanted = &liveInformer{of: l, key: key, handlers: map[*liveRegistration]struct{}{}}
	from := l.now.Load().maps
	found := make([]*informers.MapEntry, len(from))
	if err := key.GetAll(ctx, from, found, nil); err != nil {
		return nil, err
	}
	for i, entry := range found {
		wanted.entries = append(wanted.entries, &liveEntry{entry, from[i]})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted[key] = wanted
	return wanted, nil
}

// open makes the informer in a map that does not run yet, with the indexes. The caller has the turn.
func (w *liveInformer) open(ctx context.Context, m *informers.Map) (*liveEntry, error) {
	entry, err := m.Get(ctx, w.key)
	if err != nil {
		return nil, err
	}
	// An index that is refused here was refused when the program declared it, or reads say that there is none.
	opened := &liveEntry{entry, m}
	for _, declare := range w.indexes {
		_ = declare(opened)
	}
	return opened, nil
}

// changeLocked lets handlers listen to what enters. What leaves tells them of the end.
func (w *liveInformer) changeLocked(enter []*liveEntry, leave []*informers.Map) {
	w.entries = slices.DeleteFunc(slices.Clone(w.entries), func(e *liveEntry) bool { return slices.Contains(leave, e.in) })
	w.entries = append(w.entries, enter...)
	for _, entry := range enter {
		if w.of.ending[entry.in.Namespace()] == nil { // else see startLocked
			w.listenLocked(entry)
		}
	}
}

// listenLocked lets the handlers listen to an informer, except those that do so already.
func (w *liveInformer) listenLocked(entry *liveEntry) {
	for r := range w.handlers {
		if _, listens := r.handles[entry.in]; listens {
			continue
		}
		if handle, err := entry.Informer.AddEventHandlerWithOptions(r.handler, r.options); err == nil { // else the cache has stopped
			r.handles[entry.in] = liveHandle{entry, handle}
		}
	}
}

// now returns the informers of now.
func (w *liveInformer) now() []*liveEntry {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return slices.Clone(w.entries)
}

// informer returns an Informer for the program. It waits for the informers of now if wait is set, and before for the namespaces, unless
// these cannot be listed.
func (l *liveScopes) informer(ctx context.Context, n *liveNamespaces, key informers.Key, wait bool) (Informer, error) {
	if wait {
		if err := n.selected.Wait(ctx); err != nil && ctx.Err() != nil { // otherwise handlers have not synced before they are known
			return nil, err
		}
	}
	giveBack, err := n.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot get an informer of %s: %w", key, err)
	}
	wanted, err := l.want(ctx, key)
	giveBack()
	if err != nil {
		return nil, err
	}
	entries := wanted.now()
	for _, entry := range entries {
		if err := entry.Want(ctx, wait); err != nil && !entry.in.HasLeft() {
			return nil, err
		}
	}
	return &liveShown{liveInformer: wanted, namespaces: n, allDone: newAllDone(n.owner, n.awaited(func() []syncing { return syncingOf(wanted.now()) }))}, nil
}

// awaited returns what an informer or a handler waits for: what of returns now, or at the first look after the namespaces are known, for
// which it waits as well. Of takes the lock.
func (n *liveNamespaces) awaited(of func() []syncing) func() []syncing {
	once := sync.OnceValue(of)
	if n.selected.IsKnown() {
		once()
	}
	return func() []syncing {
		if !n.selected.IsKnown() {
			return []syncing{{DoneChecker: n.selected}}
		}
		return once()
	}
}

func syncingOf(entries []*liveEntry) []syncing {
	all := make([]syncing, len(entries))
	for i, entry := range entries {
		all[i] = syncing{entry.Informer.HasSyncedChecker(), entry.in.Left()}
	}
	return all
}

// index declares an index in the namespaces of now and of later. It does so without the turn: that calls functions of the program.
func (l *liveScopes) index(ctx context.Context, n *liveNamespaces, key informers.Key, declare func(*liveEntry) error) error {
	giveBack, err := n.take(ctx)
	if err != nil {
		return fmt.Errorf("cannot index %s: %w", key, err)
	}
	wanted, err := l.want(ctx, key)
	if err != nil {
		giveBack()
		return err
	}
	wanted.indexes = append(wanted.indexes, declare)
	entries := wanted.now() // those that enter later have it
	giveBack()
	for _, entry := range entries {
		if err := declare(entry); err != nil && !entry.in.HasLeft() {
			return err
		}
	}
	return nil
}

// removing calls remove, and lets the program want nothing of a key any more if that succeeds.
func (n *liveNamespaces) removing(ctx context.Context, key informers.Key, remove func() error) error {
	if n == nil {
		return remove()
	}
	giveBack, err := n.take(ctx)
	if err != nil {
		return fmt.Errorf("cannot remove the informer of %s: %w", key, err)
	}
	defer giveBack()
	if err := remove(); err != nil {
		return err
	}
	for _, l := range n.kinds {
		l.mu.Lock()
		delete(l.wanted, key)
		l.mu.Unlock()
	}
	return nil
}

// liveShown is the Informer of what the program wants.
type liveShown struct {
	*liveInformer
	*allDone   // of the informers that there were when the program asked
	namespaces *liveNamespaces
}

var _ Informer = (*liveShown)(nil)

// AddEventHandler implements Informer.
func (i *liveShown) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements Informer.
func (i *liveShown) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, resyncPeriod time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions implements Informer. The handler has synced when it has in the namespaces of now, as far as they stay.
func (i *liveShown) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	if handler == nil {
		return nil, fmt.Errorf("cannot add an event handler to the informer of %s: it is nil", i.key)
	}
	r, err := i.register(handler, options)
	if err != nil {
		return nil, err
	}
	r.allDone = newAllDone(i.namespaces.owner, i.namespaces.awaited(r.syncing))
	return r, nil
}

// register lets a handler listen to the informers of now and of later.
func (i *liveShown) register(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (*liveRegistration, error) {
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	if i.of.wanted[i.key] != i.liveInformer {
		return nil, fmt.Errorf("cannot add an event handler to the informer of %s: it was removed", i.key)
	}
	r := &liveRegistration{of: i.liveInformer, handler: handler, options: options, handles: map[*informers.Map]liveHandle{}}
	for _, entry := range i.entries {
		handle, err := entry.Informer.AddEventHandlerWithOptions(handler, options)
		if err != nil {
			return nil, errors.Join(err, r.remove())
		}
		r.handles[entry.in] = liveHandle{entry, handle}
	}
	i.handlers[r] = struct{}{}
	return r, nil
}

// RemoveEventHandler implements Informer. It is idempotent.
func (i *liveShown) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*liveRegistration)
	if !ok || r.of != i.liveInformer {
		return errors.New("cannot remove the event handler: its registration is of another informer")
	}
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	delete(i.handlers, r)
	return r.remove()
}

// AddIndexers implements Informer.
func (i *liveShown) AddIndexers(indexers toolscache.Indexers) error {
	return i.of.index(context.Background(), i.namespaces, i.key, func(e *liveEntry) error { return e.Informer.AddIndexers(indexers) })
}

// IsStopped implements Informer. It reports whether no events come any more, in a namespace of now or of later.
func (i *liveShown) IsStopped() bool {
	i.of.mu.Lock()
	removed := i.of.wanted[i.key] != i.liveInformer
	i.of.mu.Unlock()
	return removed || i.namespaces.owner.HasStopped()
}

// liveRegistration is the registration of one handler in the namespaces of now and of later.
type liveRegistration struct {
	*allDone // of the namespaces that there were when the handler was added
	of       *liveInformer
	handler  toolscache.ResourceEventHandler
	options  toolscache.HandlerOptions
	handles  map[*informers.Map]liveHandle // also in those that have left, until they have ended; liveScopes.mu guards it
}

// liveHandle is the registration of a handler in one namespace.
type liveHandle struct {
	entry *liveEntry
	toolscache.ResourceEventHandlerRegistration
}

func (r *liveRegistration) syncing() (all []syncing) {
	r.of.of.mu.Lock()
	defer r.of.of.mu.Unlock()
	for in, handle := range r.handles {
		all = append(all, syncing{handle.HasSyncedChecker(), in.Left()})
	}
	return all
}

func (r *liveRegistration) remove() error {
	var errs []error
	for in, handle := range r.handles {
		errs = append(errs, handle.entry.Informer.RemoveEventHandler(handle.ResourceEventHandlerRegistration))
		delete(r.handles, in)
	}
	return errors.Join(errs...)
}
