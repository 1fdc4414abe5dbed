// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// failures remembers the last failure to list or watch, for those who wait for the first
// list. The error handler of a Reflector is not told of all: a refused connection and a
// 429 make it wait and try again, the REST client does the same with a connection that is
// closed or that times out, and neither tells anybody. So the requests themselves are
// looked at, too. It is safe for concurrent use.
type failures struct {
	last atomic.Pointer[error]
	// misfit is set when a list could be had and did not fit the Go types of the kind: one
	// object is enough. To list again is no help as long as it is there.
	misfit atomic.Bool
}

func (f *failures) note(err error) { f.last.Store(&err) }

// noteStatus notes what the API server says. Other errors of a request were noted when it
// was made, in fewer words.
func (f *failures) noteStatus(err error) {
	if _, ok := err.(apierrors.APIStatus); ok {
		f.note(err)
	}
}

// handler returns an error handler for a Reflector.
func (f *failures) handler(next toolscache.WatchErrorHandlerWithContext) toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		f.note(err)
		if misfit := (*misfitError)(nil); errors.As(err, &misfit) {
			f.misfit.Store(true)
		}
		next(ctx, r, err)
	}
}

// client returns a client that makes requests as c does, and notes those that fail.
func (f *failures) client(c *http.Client) *http.Client {
	observed := *c
	if observed.Transport == nil {
		observed.Transport = http.DefaultTransport
	}
	observed.Transport = &observedTransport{next: observed.Transport, failures: f}
	return &observed
}

// source returns a source that lists and watches as s does, and notes what the API server
// has against it.
func (f *failures) source(s source) source { return &observedSource{source: s, failures: f} }

type observedTransport struct {
	next     http.RoundTripper
	failures *failures
}

// RoundTrip implements http.RoundTripper.
func (t *observedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	switch to := r.URL.Scheme + "://" + r.URL.Host + r.URL.Path; {
	case errors.Is(r.Context().Err(), context.Canceled): // by the end of the informer
	case err != nil:
		t.failures.note(fmt.Errorf("%s %s: %w", r.Method, to, err))
	case response.StatusCode >= http.StatusBadRequest:
		t.failures.note(fmt.Errorf("%s %s: the server answered %s", r.Method, to, response.Status))
	}
	return response, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (t *observedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

type observedSource struct {
	source
	failures *failures
}

func (s *observedSource) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := s.source.list(ctx, opts)
	s.failures.noteStatus(err)
	return list, err
}

func (s *observedSource) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.source.watch(ctx, opts)
	s.failures.noteStatus(err)
	return w, err
}

func (s *observedSource) finish(event watch.Event) watch.Event {
	event = s.source.finish(event)
	if event.Type == watch.Error {
		s.failures.note(apierrors.FromObject(event.Object))
	}
	return event
}
