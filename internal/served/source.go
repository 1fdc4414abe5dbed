// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/contain"
	"github.com/tarn-dev/tarn/internal/listwatch"
)

// Resolver asks a RESTMapper, which knows no context, for callers that have one. The zero value is ready to use. It is
// safe for concurrent use.
//
// There is one question for a kind at a time. Callers that come meanwhile share the next question, because the answer to
// the first may be older than they are, for instance older than a CRD. A question is asked in a goroutine that ends when
// the mapper has returned. The mapper that package cache makes gives up each request after 32 seconds. A manager's
// mapper asks with the manager's HTTP client, which has no time-out unless rest.Config.Timeout is set. A mapper that
// never returns keeps the goroutine. If a mapper panics, or ends its goroutine, its callers get an error.
type Resolver struct{ questions singleflight.Group }

// ErrGaveUp says that the context of a call has ended before the RESTMapper has answered.
var ErrGaveUp = errors.New("the API server has not answered discovery yet")

// Mapping returns what mapper says of a kind, asked after the call of Mapping began. Others may have asked the same: it is
// shared. The error is the mapper's, or wraps ErrGaveUp if ctx ends first.
func (r *Resolver) Mapping(ctx context.Context, mapper meta.RESTMapper, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	for fresh := false; ; fresh = true { // what was under way has ended
		answer := r.questions.DoChan(gvk.String(), func() (any, error) {
			fresh = true
			var asked *meta.RESTMapping
			err := contain.Call(fmt.Sprintf("the RESTMapper, asked for %s,", gvk), func() (err error) {
				asked, err = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
				return err
			})
			return asked, err
		})
		select {
		case result := <-answer:
			if fresh {
				return result.Val.(*meta.RESTMapping), result.Err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrGaveUp, context.Cause(ctx))
		}
	}
}

// MappingTo returns the mapping of a kind to a resource in its version of the group.
func MappingTo(gvk schema.GroupVersionKind, resource string, scope meta.RESTScope) *meta.RESTMapping {
	return &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(resource), GroupVersionKind: gvk, Scope: scope}
}

// Guess returns a mapping for a kind that is absent, for the time until it is not.
func Guess(gvk schema.GroupVersionKind) *meta.RESTMapping {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return MappingTo(gvk, plural.Resource, meta.RESTScopeNamespace)
}

// MayCome reports whether an error of a RESTMapper says that a kind is not served, or that it cannot be served now: it is
// unavailable, or discovery is not answered in time, by a server behind the API server (504) or at all. A caller that does not
// wait any longer knows neither.
func MayCome(err error) bool {
	return !errors.Is(err, ErrGaveUp) && (meta.IsNoMatchError(err) || MayBeAway(err) || listwatch.IsTimeout(err))
}

// MayBeAway reports whether err is the answer that a server behind the API server is away, or does not answer in time
// (503 or 504). It is false if the API server itself does not answer.
func MayBeAway(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}

// Source is a listwatch.Source of a kind that may not be served yet, and may come with another resource. Safe for concurrent use.
type Source struct {
	make  func(*meta.RESTMapping) (listwatch.Source, error)
	bound atomic.Pointer[bound]
}

var _ listwatch.Source = (*Source)(nil)

type bound struct {
	listwatch.Source
	mapping *meta.RESTMapping
	since   time.Time
	refused atomic.Pointer[error] // of a list that is a watch, until the next list
}

// NewSource returns a Source that is bound to mapping at first. Make makes the source of a mapping.
func NewSource(mapping *meta.RESTMapping, make func(*meta.RESTMapping) (listwatch.Source, error)) (*Source, error) {
	s := &Source{make: make}
	return s, s.Bind(mapping)
}

// Bind lets the source list and watch what mapping says from now on.
func (s *Source) Bind(mapping *meta.RESTMapping) error {
	made, err := s.make(mapping)
	if err == nil {
		s.bound.Store(&bound{Source: made, mapping: mapping, since: time.Now()})
	}
	return err
}

// Mapping returns what the source is bound to.
func (s *Source) Mapping() *meta.RESTMapping { return s.bound.Load().mapping }

const (
	// arrival is how long after discovery the API server may still answer that it does not know a resource, and arrivalRetry how
	// soon it is asked again.
	arrival      = 2 * time.Second
	arrivalRetry = 20 * time.Millisecond
)

// patiently calls f again while the API server does not know a resource that discovery has shown.
func patiently[T any](ctx context.Context, s *Source, f func(*bound) (T, error)) (result T, err error) {
	_ = wait.PollUntilContextCancel(ctx, arrivalRetry, true, func(context.Context) (done bool, _ error) {
		b := s.bound.Load()
		result, err = f(b)
		return !apierrors.IsNotFound(err) || time.Since(b.since) > arrival, nil
	})
	return result, err
}

// Example implements listwatch.Source.
func (s *Source) Example() runtime.Object { return s.bound.Load().Example() }

// Finish implements listwatch.Source.
func (s *Source) Finish(e watch.Event) watch.Event { return s.bound.Load().Finish(e) }

// List implements listwatch.Source. If a streaming list was refused because the kind cannot be watched, the next list of the
// Reflector fails. Otherwise handlers would be told of objects, and then that these are gone.
func (s *Source) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return patiently(ctx, s, func(b *bound) (runtime.Object, error) {
		if refused := b.refused.Swap(nil); refused != nil {
			return nil, *refused
		}
		return b.Source.List(ctx, opts)
	})
}

// Watch implements listwatch.Source.
func (s *Source) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return patiently(ctx, s, func(b *bound) (watch.Interface, error) {
		w, err := b.Source.Watch(ctx, opts)
		if ptr.Deref(opts.SendInitialEvents, false) && apierrors.IsMethodNotSupported(err) {
			b.refused.Store(&err)
		}
		return w, err
	})
}
