// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// refer reads a scope for the reconcile whose context ctx is. The request holds the reference before it waits and reads, so it is
// told of each change after the read. A read that the informer refuses has seen nothing: the request is woken when it would be
// answered.
func (r *References[R]) refer(ctx context.Context, obj runtime.Object, scope Scope, read func(*Lease) (version string, err error)) error {
	t, ok := ctx.Value(trackerKey[R]{r}).(*tracker[R])
	if !ok {
		return errOutside
	}
	ref, err := r.reference(ctx, t, obj, scope)
	if err != nil {
		return err
	}
	if err := ref.entry.TryForSync(ctx); err != nil {
		r.repeat(t.request, ref)
		switch {
		case ref.filtered && ref.key.labels != "":
			err = fmt.Errorf("cannot refer to a list of %s by %q in an informer of %s: %w (References.SetNameWatches sets how many label selectors are watched one by one)", ref.key.Kind, ref.key.labels, ref.wider, err)
		case ref.copied != nil:
			err = fmt.Errorf("cannot refer to %s %s by its metadata among all: %w (References.SetNameWatches sets how many names are watched one by one)", ref.key.Kind, scope.Name, err)
		default:
			err = ref.explain(err)
		}
		return err
	}
	if err := ref.check(); err != nil { // the source has ended
		return err
	}
	version, err := read(ref.Lease)
	r.saw(t, ref, version, err)
	return err
}

// repeat wakes a request when the informer of a reference answers reads. The first that waits for an informer begins a goroutine, which
// ends with the wait, with the listener, or with the informer.
func (r *References[R]) repeat(request R, ref *reference[R]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u, l := ref.users[request], r.listeners[ref.entry]
	if u == nil { // the source has ended
		return
	}
	u.refused = true
	if l.giveUp != nil {
		return
	}
	ctx, giveUp := context.WithCancel(context.Background())
	l.giveUp = giveUp
	r.of.of.Go(func(context.Context) { // the informer ends before the cache does
		defer giveUp()
		if ref.entry.WaitUntilAnswered(ctx) == nil {
			l.repeat()
		}
	})
}

// repeat wakes the requests whose reads the informer has refused.
func (l *listener[R]) repeat() {
	l.of.mu.Lock()
	l.giveUp = nil
	woken := map[R]struct{}{}
	for ref := range l.references() {
		for request, u := range ref.users {
			if u.refused {
				u.refused, woken[request] = false, struct{}{}
				l.of.noteLocked(request, wakeUp[R]{ref: ref, change: answered, at: time.Now()})
			}
		}
	}
	l.of.mu.Unlock()
	l.of.enqueue(woken)
}

// reference returns the reference for a scope, which the request of t holds from now on.
func (r *References[R]) reference(ctx context.Context, t *tracker[R], obj runtime.Object, scope Scope) (*reference[R], error) {
	gvk, err := r.of.of.Kind(obj)
	if err != nil {
		return nil, err
	}
	switch is, err := r.of.of.ScopeOf(ctx, gvk); {
	case err != nil:
		return nil, err
	case is == meta.RESTScopeNameRoot:
		scope.Namespace = "" // as in other reads
	case is == meta.RESTScopeNameNamespace && scope.Name != "" && scope.Namespace == "":
		return nil, fmt.Errorf("cannot refer to %s %q: the kind is namespaced, and the key has no Namespace", gvk.Kind, scope.Name)
	}
	key := refKey{Key: informers.KeyOf(gvk, obj), namespace: scope.Namespace, name: scope.Name}
	if scope.Labels != nil {
		key.labels = scope.Labels.String()
	}
	if ref, err := r.hold(t, key, nil); ref != nil || err != nil {
		return ref, err
	}
	lease, err := r.leaseOn(ctx, key.Key, scope) // without the lock, since it may ask the API server
	if err != nil {
		return nil, fmt.Errorf("cannot refer to %s: %w", key.Key, err)
	}
	ref, err := r.hold(t, key, lease)
	if err != nil || ref.Lease != lease { // another request was faster
		err = errors.Join(err, lease.Release())
	}
	return ref, err
}

// hold lets the request of t hold a reference. Unless there is one, it is made with a lease; without a lease the result is nil. A
// reference whose informer fails and is wider is not there, unless the lease is on the same informer: another may be permitted.
func (r *References[R]) hold(t *tracker[R], key refKey, lease *Lease) (*reference[R], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue == nil {
		return nil, errNoQueue
	}
	ref := r.all[key]
	if ref != nil && ref.filtered && ref.entry.Failing() != nil && (lease == nil || lease.entry != ref.entry) {
		ref = nil
	}
	if ref == nil && lease == nil {
		return nil, nil
	}
	if ref == nil {
		ref = &reference[R]{Lease: lease, key: key, users: map[R]*use{}, woken: r.of.of.LeaseMetrics().WakeUps(key.GroupVersionKind)}
		if err := r.listenLocked(ref); err != nil {
			return nil, err
		}
		r.all[key] = ref
	}
	if err := t.note(ref); err != nil {
		r.dropIfUnusedLocked(ref)
		return nil, err
	}
	if ref.users[t.request] == nil {
		ref.users[t.request] = &use{}
		if r.noter != nil {
			ref.users[t.request].own = &own{holding: t.writes}
		}
		if r.requests[t.request] == nil {
			r.requests[t.request] = map[*reference[R]]struct{}{}
		}
		r.requests[t.request][ref] = struct{}{}
	}
	return ref, nil
}

// saw notes what a read has returned. It wakes the request if something else came meanwhile.
func (r *References[R]) saw(t *tracker[R], ref *reference[R], version string, err error) {
	absent := apierrors.IsNotFound(err)
	if err != nil {
		version = ""
	}
	differs := (err == nil || absent) && t.saw(ref, cmp.Or(version, "none"))
	r.mu.Lock()
	u := ref.users[t.request]
	if u == nil { // the source has ended
		r.mu.Unlock()
		return
	}
	wake, queue := u.saw(ref.key, version, absent) || differs && !u.own.has(version), r.queue
	if wake {
		r.noteLocked(t.request, wakeUp[R]{ref: ref, object: ref.key.object(), change: changedMeanwhile, at: time.Now()})
	}
	r.mu.Unlock()
	switch {
	case queue == nil:
	case wake:
		queue.Add(t.request)
	case ref.copied != nil && err != nil && !absent: // no event tells when a GET succeeds again
		queue.AddAfter(t.request, getPause)
	}
}

// keep lets a request hold no other references than those that it has read.
func (r *References[R]) keep(request R, read map[*reference[R]]string) {
	r.mu.Lock()
	var over []*Lease
	for ref := range r.requests[request] {
		if _, still := read[ref]; still {
			continue
		}
		delete(ref.users, request)
		delete(r.requests[request], ref)
		if r.dropIfUnusedLocked(ref) {
			over = append(over, ref.Lease)
		}
	}
	if len(r.requests[request]) == 0 {
		delete(r.requests, request)
	}
	r.mu.Unlock()
	release(over)
}

func release(over []*Lease) {
	for _, l := range over {
		_ = l.Release() // nobody else has it
	}
}

// dropIfUnusedLocked lets go of a reference that no request holds, and reports whether its lease is to be released.
func (r *References[R]) dropIfUnusedLocked(ref *reference[R]) bool {
	if len(ref.users) > 0 {
		return false
	}
	if r.all[ref.key] == ref {
		delete(r.all, ref.key)
	}
	l := r.listeners[ref.entry]
	if l.remove(ref); l.empty() {
		delete(r.listeners, ref.entry)
		if l.giveUp != nil {
			l.giveUp()
		}
		_ = ref.entry.Informer.RemoveEventHandler(l.added) // it fails if the informer has stopped, and the handler with it
	}
	return true
}

// event is what a handler was told of an object.
type event struct {
	version          string // of the change; empty if a deletion has none that can be compared
	initial, deleted bool
	uid              types.UID // empty if it is of two objects, or own writes are not ignored
}

// saw notes what a read has returned, and reports whether an event of before tells of anything else.
func (u *use) saw(key refKey, version string, absent bool) (wake bool) {
	early, changed := u.early, u.changed
	*u = use{read: true, version: version, absent: absent, own: u.own}
	return early != nil && (key.name == "" && changed || u.news(key, *early))
}

// news reports whether an event tells of anything else than what was read. Versions are compared for equality, because they go back
// when etcd is restored; a list has one version for all that was there at first.
func (u *use) news(key refKey, e event) bool {
	switch {
	case e.deleted:
		return !(key.name != "" && (u.absent || u.own.hasAfter(e.version)))
	case key.name != "":
		return u.version == "" || e.version != u.version
	case e.initial:
		order, err := resourceversion.CompareResourceVersion(e.version, u.version)
		return err != nil || order > 0
	}
	return true
}

// hear takes an event, and reports whether it wakes the request.
func (u *use) hear(key refKey, e event) bool {
	if u.read {
		return u.news(key, e)
	}
	u.changed = u.changed || e.deleted || !e.initial
	early := e // alone is kept: an event that nobody has to keep is not allocated
	if key.name == "" && u.early != nil && e.initial {
		if order, err := resourceversion.CompareResourceVersion(e.version, u.early.version); err == nil && order < 0 {
			early.version = u.early.version
		}
	}
	u.early = &early
	return false
}

// listener is the one event handler of an informer that serves references. The lock of the references guards what may change.
type listener[R comparable] struct {
	of     *References[R]
	added  toolscache.ResourceEventHandlerRegistration
	named  map[types.NamespacedName][]*reference[R] // of each representation
	wide   map[*reference[R]]struct{}
	giveUp func() // ends the wait for the informer; nil if nobody's read was refused
}

// listenLocked has the handler of the informer that serves a reference tell it of changes. The first reference adds the handler.
func (r *References[R]) listenLocked(ref *reference[R]) error {
	l := r.listeners[ref.entry]
	if l == nil {
		l = &listener[R]{of: r, named: map[types.NamespacedName][]*reference[R]{}, wide: map[*reference[R]]struct{}{}}
		var err error
		if l.added, err = ref.entry.Informer.AddEventHandlerWithOptions(l, toolscache.HandlerOptions{ResyncPeriod: ptr.To(time.Duration(0))}); err != nil {
			return err
		}
		r.listeners[ref.entry] = l
	}
	if ref.key.name == "" {
		l.wide[ref] = struct{}{}
	} else {
		l.named[ref.key.object()] = append(l.named[ref.key.object()], ref)
	}
	return nil
}

func (l *listener[R]) remove(ref *reference[R]) {
	delete(l.wide, ref)
	at := ref.key.object()
	l.named[at] = slices.DeleteFunc(l.named[at], func(other *reference[R]) bool { return other == ref })
	if len(l.named[at]) == 0 {
		delete(l.named, at)
	}
}

// references walks the references that the informer serves.
func (l *listener[R]) references() iter.Seq[*reference[R]] {
	return func(yield func(*reference[R]) bool) {
		for _, named := range l.named {
			for _, ref := range named {
				if !yield(ref) {
					return
				}
			}
		}
		for ref := range l.wide {
			if !yield(ref) {
				return
			}
		}
	}
}

func (l *listener[R]) empty() bool { return len(l.named) == 0 && len(l.wide) == 0 }

// OnAdd implements ResourceEventHandler.
func (l *listener[R]) OnAdd(obj any, isInInitialList bool) {
	l.tell(event{initial: isInInitialList}, added, obj, obj)
}

// OnUpdate implements ResourceEventHandler.
func (l *listener[R]) OnUpdate(before, after any) { l.tell(event{}, modified, before, after) }

// OnDelete implements ResourceEventHandler.
func (l *listener[R]) OnDelete(obj any) {
	l.tell(event{deleted: true}, deleted, obj, obj)
}

// OnDifference implements informer.DifferenceHandler: what came and went between the two states was not told. An object that a request
// has seen, and that is not there, is gone for it; a list may have had more. An informer that the user made tells of each change instead.
func (l *listener[R]) OnDifference(revision uint64, restored bool, has func(namespace, name string) bool) {
	version := strconv.FormatUint(revision, 10)
	gone := event{deleted: true, version: version}
	if restored {
		gone.version = ""
	}
	l.of.mu.Lock()
	l.forgetOwn(gone.version)
	woken := map[R]struct{}{}
	for at, refs := range l.named {
		if has(at.Namespace, at.Name) {
			continue
		}
		for _, ref := range refs {
			l.hear(ref, gone, at, deleted, woken)
		}
	}
	for ref := range l.wide {
		l.hear(ref, event{version: version, initial: true}, client.ObjectKey{}, listed, woken)
	}
	l.of.mu.Unlock()
	l.of.enqueue(woken)
}

// hear lets the requests that hold a reference hear of an event, which is a change of an object, and adds those that it wakes. The
// caller holds the lock of the references.
func (l *listener[R]) hear(ref *reference[R], e event, object client.ObjectKey, change string, woken map[R]struct{}) {
	for request, u := range ref.users {
		if u.own != nil && u.ignores(ref.key, heldBack{e, object, change, time.Now()}) {
			continue
		}
		if u.hear(ref.key, e) {
			woken[request] = struct{}{}
			l.of.noteLocked(request, wakeUp[R]{ref: ref, object: object, change: change, at: time.Now()})
		}
	}
}

// enqueue enqueues requests. Most events wake none, and take no lock for that.
func (r *References[R]) enqueue(woken map[R]struct{}) {
	if len(woken) == 0 {
		return
	}
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	if queue == nil {
		return
	}
	for request := range woken {
		queue.Add(request)
	}
}

// tell enqueues the requests to which a change is news. Its goroutine is that of the informer.
func (l *listener[R]) tell(e event, change string, before, after any) {
	missed, isMissed := after.(toolscache.DeletedFinalStateUnknown)
	if isMissed {
		before, after = missed.Obj, missed.Obj
	}
	m, err := meta.Accessor(after)
	if err != nil {
		return // a transform has put something else in its place
	}
	if !isMissed {
		e.version = m.GetResourceVersion()
	}
	if l.of.noter != nil {
		if was, err := meta.Accessor(before); err == nil && was.GetUID() == m.GetUID() {
			e.uid = m.GetUID()
		}
	}
	object := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
	woken := map[R]struct{}{}
	l.of.mu.Lock()
	for _, ref := range l.named[object] {
		l.hear(ref, e, object, change, woken)
	}
	for ref := range l.wide {
		its := ref.scope.change(before, after)
		if its == modified { // also of an object that was created or deleted, and is there twice
			its = change
		}
		if its != "" {
			l.hear(ref, e, object, its, woken)
		}
	}
	l.of.mu.Unlock()
	l.of.enqueue(woken)
}

// Source returns the source of a controller that enqueues the requests. It can be started once. When its context ends, all
// references are released.
func (r *References[R]) Source() source.TypedSource[R] {
	return source.TypedFunc[R](func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[R]) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.queue != nil || r.ended {
			return errors.New("the source of the references was started already: each controller has References of its own")
		}
		r.queue = queue
		r.of.add(r)
		context.AfterFunc(ctx, r.end)
		return nil
	})
}

// end releases all references.
func (r *References[R]) end() {
	r.mu.Lock()
	r.queue, r.ended = nil, true
	var over []*Lease
	for request, refs := range r.requests {
		for ref := range refs {
			delete(ref.users, request)
			if r.dropIfUnusedLocked(ref) {
				over = append(over, ref.Lease)
			}
		}
	}
	clear(r.requests)
	clear(r.wakeUps)
	r.newest = nil
	r.of.remove(r)
	r.mu.Unlock()
	release(over)
}
