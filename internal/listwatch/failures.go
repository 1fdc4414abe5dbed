// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

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

// Failures remembers the last failure to list or watch, for callers that wait for the first list.
// The error handler of a Reflector does not see every failure. After a refused connection and after
// a 429 the Reflector waits and tries again, and the REST client does the same after a connection
// was closed or timed out; neither calls the handler. So Failures also watches the requests. The
// zero value is ready to use. It is safe for concurrent use.
type Failures struct {
	last   atomic.Pointer[error]
	misfit atomic.Bool
}

// Last returns the last failure, or nil if there was none.
func (f *Failures) Last() error {
	if err := f.last.Load(); err != nil {
		return *err
	}
	return nil
}

// Misfit reports that a list arrived that did not fit the Go types of the kind, and that no list
// has been complete since. One object that does not fit is enough, and further lists fail as long
// as that object exists.
func (f *Failures) Misfit() bool { return f.misfit.Load() }

// Listed is called when a list is complete and all its objects fit.
func (f *Failures) Listed() { f.misfit.Store(false) }

func (f *Failures) note(err error) { f.last.Store(&err) }

// noteStatus notes an error if the API server answered with it. The transport has noted other
// errors of the request, in fewer words.
func (f *Failures) noteStatus(err error) {
	if _, ok := err.(apierrors.APIStatus); ok {
		f.note(err)
	}
}

// Handler returns an error handler for a Reflector. It notes the error and calls next.
func (f *Failures) Handler(next toolscache.WatchErrorHandlerWithContext) toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		f.note(err)
		if misfit := (*misfitError)(nil); errors.As(err, &misfit) {
			f.misfit.Store(true)
		}
		next(ctx, r, err)
	}
}

// Client returns a client that makes requests as c does, and notes the requests that fail.
func (f *Failures) Client(c *http.Client) *http.Client {
	observed := *c
	if observed.Transport == nil {
		observed.Transport = http.DefaultTransport
	}
	observed.Transport = &observedTransport{next: observed.Transport, failures: f}
	return &observed
}

// Source returns a source that lists and watches as s does, and notes the errors of the API server.
func (f *Failures) Source(s Source) Source { return &observedSource{Source: s, failures: f} }

// misfitError is the error for a list with an object that does not fit the Go type of its kind.
type misfitError struct{ err error }

func (e *misfitError) Error() string { return e.err.Error() }
func (e *misfitError) Unwrap() error { return e.err }

type observedTransport struct {
	next     http.RoundTripper
	failures *Failures
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
	Source
	failures *Failures
}

func (s *observedSource) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := s.Source.List(ctx, opts)
	s.failures.noteStatus(err)
	return list, err
}

func (s *observedSource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.Source.Watch(ctx, opts)
	s.failures.noteStatus(err)
	return w, err
}

func (s *observedSource) Finish(event watch.Event) watch.Event {
	event = s.Source.Finish(event)
	if event.Type == watch.Error {
		s.failures.note(apierrors.FromObject(event.Object))
	}
	return event
}
