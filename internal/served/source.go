// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/listwatch"
)

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

// patiently calls f again while the API server does not know a resource that discovery has shown, as one of several may not. A failure
// would end a cache that fails fast.
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

// Join implements listwatch.Joiner. Like List it tries again while the API server does not know the resource yet. It does not call
// patiently: that would hold a timer for each namespace for as long as Join lasts.
func (s *Source) Join(ctx context.Context, opts metav1.ListOptions, to listwatch.Joined) (joined bool, err error) {
	brought, list := false, to.List
	to.List = func(l runtime.Object) error {
		brought = true
		return list(l)
	}
	for {
		b := s.bound.Load()
		joined, err = listwatch.Join(ctx, b.Source, opts, to)
		if brought || !apierrors.IsNotFound(err) || time.Since(b.since) > arrival {
			return joined, err
		}
		select {
		case <-time.After(arrivalRetry):
		case <-ctx.Done():
			return joined, err
		}
	}
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
