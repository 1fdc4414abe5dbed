// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/listwatch"
)

// presence is where an entry of an optional kind is.
type presence int32

const (
	present  presence = iota // it follows the API server, or tries to
	arriving                 // the kind is served again, and the first list is not complete
	parked                   // the kind is not served
)

// optional is what an entry of an optional kind has in addition: it is parked while the API server
// does not serve the kind.
type optional struct {
	entry  *MapEntry
	kinds  *Served
	source *lateSource
	holds  func(meta.RESTScope) bool // false of a scope whose kinds are cached elsewhere
	state  atomic.Int32              // a presence
	away   atomic.Pointer[error]     // why the kind cannot be cached now, if it is parked and is served, or might be

	telling sync.Mutex // held by served; guards what follows
	mapping *meta.RESTMapping
	doubted time.Time // of the first answer without a kind that is cached; zero if the newest one has it
}

// mappingTo returns the mapping of a kind to a resource in its version of the group.
func mappingTo(key Key, resource string, scope meta.RESTScope) *meta.RESTMapping {
	return &meta.RESTMapping{Resource: key.GroupVersion().WithResource(resource), GroupVersionKind: key.GroupVersionKind, Scope: scope}
}

// guess returns a mapping for a kind that is not served, for the time until it is.
func guess(key Key) *meta.RESTMapping {
	plural, _ := meta.UnsafeGuessKindToResource(key.GroupVersionKind)
	return mappingTo(key, plural.Resource, meta.RESTScopeNamespace)
}

func (e *MapEntry) optional() *optional { return e.waiting.optional }

func (o *optional) is(p presence) bool { return o != nil && presence(o.state.Load()) == p }

// parkFromTheStart parks an entry before it runs.
func (o *optional) parkFromTheStart() {
	o.state.Store(int32(parked))
	o.mapping = nil
	if own := o.entry.ours(); own != nil {
		own.Park()
	}
}

// rest parks an entry that may run.
func (o *optional) rest() {
	o.state.Store(int32(parked))
	o.entry.ours().Park() // before Forget: what ends thereby is no failure
	o.entry.failures.Forget()
}

// sight is what a look at discovery has seen of a kind.
type sight struct {
	mapping *meta.RESTMapping // nil if the kind is not served, or cannot be cached
	unfit   error             // a *verbsError if the kind is served and cannot be cached
	gone    map[string]bool   // as servedGroup.gone at the time of the look
}

// canBeTold reports whether the entry is there, and can be parked. It may have been removed during a look.
func (o *optional) canBeTold() bool { return o.entry.ours() != nil && o.entry.ctx.Err() == nil }

// served tells what has been seen of the kind, and reports whether that is new, or so doubtful that nothing is
// done before another look.
func (o *optional) served(now sight, logger logr.Logger) (changed, doubtful bool) {
	o.telling.Lock()
	defer o.telling.Unlock()
	if !o.canBeTold() {
		return false, false
	}
	if now.mapping == nil && o.doubts(now.gone) {
		return false, true
	}
	o.doubted = time.Time{}
	return o.follow(now, logger), false
}

// doubts reports whether one answer without the kind is not enough to tell handlers that its objects are gone: the
// kind is cached, lists and watches go on, and neither its CRD nor its APIService was deleted. A server that has just
// started may not know all of its kinds. The second answer is enough, if it comes no earlier than secondLook after
// the first.
func (o *optional) doubts(gone map[string]bool) bool {
	if o.mapping == nil || !o.entry.synced() || gone[o.mapping.Resource.Resource] || gone[""] {
		return false
	}
	if failed := o.entry.failures.Last(); failed != nil && CauseOf(failed.Err) == NotServed {
		return false
	}
	if o.doubted.IsZero() {
		o.doubted = time.Now()
	}
	return time.Since(o.doubted) < secondLook
}

// follow parks or begins to list and watch if what has been seen is new, and reports whether it is.
func (o *optional) follow(now sight, logger logr.Logger) (changed bool) {
	was := o.mapping
	switch {
	case now.unfit != nil:
		return o.park(now, "A kind is served, and cannot be cached", logger, "reason", now.unfit.Error())
	case now.mapping == nil:
		return o.park(now, "A kind is not served any more: its objects are gone, and it is cached again when it is back", logger)
	case was != nil && now.mapping.Resource == was.Resource && now.mapping.Scope.Name() == was.Scope.Name():
		o.away.Store(nil)
		return false
	}
	o.away.Store(nil)
	o.mapping = now.mapping
	o.arrive(logger)
	return true
}

// park parks the entry of a kind that is not served, or not so that it can be cached, and logs that. It reports
// whether that is new. An entry that is parked already is told why now.
func (o *optional) park(now sight, said string, logger logr.Logger, details ...any) (changed bool) {
	before := o.away.Load()
	if now.unfit == nil {
		o.away.Store(nil)
	} else {
		o.away.Store(&now.unfit)
	}
	if o.mapping == nil && (now.unfit == nil || before != nil && (*before).Error() == now.unfit.Error()) {
		return false
	}
	o.mapping = nil
	o.rest()
	logger.Info(said, append([]any{"kind", o.entry.String()}, details...)...)
	return true
}

// arrive begins to list and watch a kind with the mapping of now.
func (o *optional) arrive(logger logr.Logger) {
	own := o.entry.ours()
	if !o.holds(o.mapping.Scope) {
		logger.Info("A kind is served with another scope than before: reads use other informers; event handlers must be added to those", "kind", o.entry.String(), "scope", o.mapping.Scope.Name())
		o.rest()
		return
	}
	if err := o.source.bind(o.mapping); err != nil {
		logger.Error(err, "A kind is served, and cannot be cached", "kind", o.entry.String())
		return
	}
	o.entry.Reader.SetScope(o.mapping.Scope.Name())
	o.state.Store(int32(arriving))
	own.Park()                     // if it was not: the kind is another one now
	o.state.Store(int32(arriving)) // a list of before may have ended it until then
	o.entry.own.begin()
	o.entry.failures.Forget()
	own.Unpark()
	logger.Info("A kind is served: it is cached from now on", "kind", o.entry.String(), "resource", o.mapping.Resource.String())
}

// unavailable tells that the API server cannot serve the kind now. What was listed stays, because nobody has
// deleted it; without a list, the entry is parked until the kind is served.
func (o *optional) unavailable(err error, logger logr.Logger) {
	o.telling.Lock()
	defer o.telling.Unlock()
	if !o.canBeTold() || o.entry.synced() {
		return
	}
	o.away.Store(&err)
	if o.mapping == nil {
		return
	}
	o.mapping = nil
	o.rest()
	logger.Info("A kind cannot be served now: it is cached when it can", "kind", o.entry.String(), "reason", o.why().Error())
}

// listed notes that a list is complete.
func (o *optional) listed() {
	if o != nil && o.state.CompareAndSwap(int32(arriving), int32(present)) {
		o.entry.failures.Wake()
	}
}

// why returns the error of a read while the kind is not served.
func (o *optional) why() *NotSyncedError {
	key := o.entry.key
	switch err := o.away.Load(); {
	case err == nil:
	case CauseOf(*err) == NotWatchable:
		return &NotSyncedError{Key: key, Namespace: o.entry.scope.namespace, Cause: NotWatchable, Err: *err}
	default:
		return &NotSyncedError{Key: key, Namespace: o.entry.scope.namespace, Cause: CauseOf(*err), Err: &awayError{key, *err}}
	}
	absent := &meta.NoKindMatchError{GroupKind: key.GroupKind(), SearchedVersions: []string{key.Version}}
	return &NotSyncedError{Key: key, Namespace: o.entry.scope.namespace, Cause: NotServed, Err: MappingError(key, absent)}
}

// handler returns an error handler that passes over what comes of the end of the kind: Served tells of
// that, in one line.
func (o *optional) handler(next toolscache.WatchErrorHandlerWithContext) toolscache.WatchErrorHandlerWithContext {
	if o == nil {
		return next
	}
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		switch cause, _ := causeOf(err); {
		case cause == NotServed:
			o.kinds.look(o.entry.key.GroupVersion(), true)
			return
		case mayBeAway(err) && !o.entry.synced():
			o.kinds.lookOnce(o.entry.key.GroupVersion())
		}
		next(ctx, r, err)
	}
}

// mayBeAway reports whether err is the answer that a server behind the API server is away, or does not answer in time
// (503 or 504). That nobody answers the cache itself is another matter.
func mayBeAway(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}

// lateSource is the source of a kind that may not be served yet.
type lateSource struct {
	make    func(*meta.RESTMapping) (*boundSource, error)
	example runtime.Object

	bound atomic.Pointer[boundSource]
}

type boundSource struct {
	listwatch.Source
	scope   scope
	since   time.Time
	refused atomic.Pointer[error] // of watchFirst, until the next list
}

// newLateSource returns a source for key that is bound to mapping at first.
func newLateSource(o *Options, client *http.Client, key Key, mapping *meta.RESTMapping) (*lateSource, error) {
	s := &lateSource{make: func(m *meta.RESTMapping) (*boundSource, error) {
		made, err := newSource(o, client, key, m)
		return &boundSource{Source: made, scope: o.scopeOf(m), since: time.Now()}, err
	}}
	if err := s.bind(mapping); err != nil {
		return nil, err
	}
	s.example = s.bound.Load().Example()
	return s, nil
}

// bind lets the source list and watch what mapping says from now on.
func (s *lateSource) bind(mapping *meta.RESTMapping) error {
	made, err := s.make(mapping)
	if err == nil {
		s.bound.Store(made)
	}
	return err
}

// arrival is how long after discovery the API server may still answer that it does not know a
// resource, and arrivalRetry how soon it is asked again.
const (
	arrival      = 2 * time.Second
	arrivalRetry = 20 * time.Millisecond
)

// patiently calls f again while the API server does not know a resource that discovery has shown.
func patiently[T any](ctx context.Context, s *lateSource, f func(*boundSource) (T, error)) (T, error) {
	for {
		bound := s.bound.Load()
		result, err := f(bound)
		if !apierrors.IsNotFound(err) || time.Since(bound.since) > arrival {
			return result, err
		}
		select {
		case <-time.After(arrivalRetry):
		case <-ctx.Done():
			return result, err
		}
	}
}

func (s *lateSource) Example() runtime.Object { return s.example }

func (s *lateSource) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return patiently(ctx, s, func(src *boundSource) (runtime.Object, error) { return src.listNext(ctx, opts) })
}

func (s *lateSource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return patiently(ctx, s, func(src *boundSource) (watch.Interface, error) {
		if ptr.Deref(opts.SendInitialEvents, false) {
			return src.watchFirst(ctx, opts)
		}
		return src.Watch(ctx, opts)
	})
}

func (s *lateSource) Finish(e watch.Event) watch.Event { return s.bound.Load().Finish(e) }

// orNothing returns an error that has no cause in place of none.
func orNothing(err error) error {
	if err == nil {
		return errNothing
	}
	return err
}

var errNothing = errors.New("")
