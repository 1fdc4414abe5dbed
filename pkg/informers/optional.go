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
	state  atomic.Int32 // a presence

	telling sync.Mutex // held by served; guards mapping
	mapping *meta.RESTMapping
}

// guess returns a mapping for a kind that is not served, for the time until it is.
func guess(key Key) *meta.RESTMapping {
	resource, _ := meta.UnsafeGuessKindToResource(key.GroupVersionKind)
	return &meta.RESTMapping{Resource: resource, GroupVersionKind: key.GroupVersionKind, Scope: meta.RESTScopeNamespace}
}

func (e *MapEntry) optional() *optional { return e.waiting.optional }

// mappingOr returns the mapping with which an optional kind is served now, or the one given.
func (e *MapEntry) mappingOr(first *meta.RESTMapping) *meta.RESTMapping {
	o := e.optional()
	if o == nil {
		return first
	}
	o.telling.Lock()
	defer o.telling.Unlock()
	if o.mapping == nil {
		return first
	}
	return o.mapping
}

func (o *optional) is(p presence) bool { return o != nil && presence(o.state.Load()) == p }

// parkFromTheStart parks an entry before it runs.
func (o *optional) parkFromTheStart() {
	o.state.Store(int32(parked))
	o.mapping = nil
	if own := o.entry.ours(); own != nil {
		own.Park()
	}
}

// served tells that the API server serves the kind with a mapping, or does not if it is nil. It
// reports whether that is new.
func (o *optional) served(mapping *meta.RESTMapping, logger logr.Logger) (changed bool) {
	o.telling.Lock()
	defer o.telling.Unlock()
	own := o.entry.ours()
	was := o.mapping
	if own == nil || mapping == nil && was == nil || mapping != nil && was != nil && mapping.Resource == was.Resource && mapping.Scope.Name() == was.Scope.Name() {
		return false
	}
	o.mapping = mapping
	if mapping != nil && o.entry.scope.namespace != "" && mapping.Scope.Name() == meta.RESTScopeNameRoot {
		logger.Info("A kind is served, and is cluster-scoped: it cannot be cached in a namespace. Reads use an informer of the whole kind; event handlers must be added to that", "kind", o.entry.String())
		o.state.Store(int32(parked))
		own.Park()
		o.entry.failures.Wake()
		return true
	}
	if mapping == nil {
		o.state.Store(int32(parked))
		own.Park()
		logger.Info("A kind is not served any more: its objects are gone, and it is cached again when it is back", "kind", o.entry.String())
		o.entry.failures.Wake()
		return true
	}
	if err := o.source.bind(mapping); err != nil {
		logger.Error(err, "A kind is served, and cannot be cached", "kind", o.entry.String())
		return true
	}
	o.entry.Reader.SetScope(mapping.Scope.Name())
	o.state.Store(int32(arriving))
	own.Park() // if it was not: the kind is another one now
	o.entry.own.begin()
	own.Unpark()
	logger.Info("A kind is served: it is cached from now on", "kind", o.entry.String(), "resource", mapping.Resource.String())
	o.entry.failures.Wake()
	return true
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
		if cause, _ := causeOf(err); cause == NotServed {
			o.kinds.look(o.entry.key.GroupVersion(), true)
			return
		}
		next(ctx, r, err)
	}
}

// lateSource is the source of a kind that may not be served yet.
type lateSource struct {
	make    func(*meta.RESTMapping) (listwatch.Source, error)
	example runtime.Object

	bound atomic.Pointer[boundSource]
}

type boundSource struct {
	listwatch.Source
	since time.Time
}

// newLateSource returns a source for key that mapping is bound to, unless it is nil.
func newLateSource(o *Options, client *http.Client, key Key, mapping *meta.RESTMapping) (*lateSource, error) {
	s := &lateSource{make: func(m *meta.RESTMapping) (listwatch.Source, error) { return newSource(o, client, key, m) }}
	first := mapping
	if first == nil {
		first = guess(key)
	}
	made, err := s.make(first)
	if err != nil {
		return nil, err
	}
	s.example = made.Example()
	s.bound.Store(&boundSource{made, time.Now()})
	return s, nil
}

func (s *lateSource) bind(mapping *meta.RESTMapping) error {
	made, err := s.make(mapping)
	if err == nil {
		s.bound.Store(&boundSource{made, time.Now()})
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
func patiently[T any](ctx context.Context, s *lateSource, f func(listwatch.Source) (T, error)) (T, error) {
	for {
		bound := s.bound.Load()
		result, err := f(bound.Source)
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
	return patiently(ctx, s, func(src listwatch.Source) (runtime.Object, error) { return src.List(ctx, opts) })
}

func (s *lateSource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return patiently(ctx, s, func(src listwatch.Source) (watch.Interface, error) { return src.Watch(ctx, opts) })
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
