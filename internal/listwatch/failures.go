// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/relist"
	"github.com/tarn-dev/tarn/internal/signal"
)

// Failure is what keeps an informer from following the API server.
type Failure struct {
	// Err is the error of the last attempt that failed. It is a *DecodeError or a *StatusError, an
	// error of the API server, one of the connection, or what the Reflector made of one of these.
	Err error
	// Since is the time of the first attempt that failed since the last success, and Attempts is
	// the number of attempts that failed since then.
	Since    time.Time
	Attempts int
	// Ended says that the attempt is over, and not only one of its requests.
	Ended bool
}

// Failures remembers what keeps an informer from following the API server, for callers that wait
// for the first list. The error handler of a Reflector does not see every failure. After a refused
// connection and after a 429 the Reflector waits and tries again, and the REST client does the same
// after a connection was closed or timed out; neither calls the handler. So Failures also watches
// the requests. The zero value is ready to use. It is safe for concurrent use.
type Failures struct {
	counters Counters // has its own locks

	mu          sync.Mutex  // guards what follows
	last        *Failure    // nil after a success
	begun       time.Time   // the newest request began; zero if there was none
	counted     bool        // the attempt of now has failed, and is counted
	decodeError atomic.Bool // written with mu
	listed      bool        // a list was complete
	lists       *relist.Lists
	changed     signal.Broadcast
}

// Last returns what fails now, or nil if nothing does.
func (f *Failures) Last() *Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		return nil
	}
	last := *f.last
	return &last
}

// Counters returns what counts the same lists and watches.
func (f *Failures) Counters() *Counters { return &f.counters }

// Changed returns a channel that is closed when Last has changed, and by Wake.
func (f *Failures) Changed() <-chan struct{} { return f.changed.Wait() }

// DecodeFailed reports that a list did not fit the Go types of the kind, and that no list has been
// complete since. One object that does not fit is enough, and further lists fail as long as that
// object exists.
func (f *Failures) DecodeFailed() bool { return f.decodeError.Load() }

// Listed is called when a list is complete and all its objects fit.
func (f *Failures) Listed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decodeError.Store(false)
	f.listed = true
	f.lists.Complete()
	f.setLocked(nil)
}

// Relist returns the lists of a rule, which changes when the channel of changed is closed. Nil stands for a rule that does not.
func (f *Failures) Relist(changed func() <-chan struct{}) *relist.Lists {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists = relist.New(changed, func() { f.counters.ending(Changed) })
	return f.lists
}

// Behind reports whether the cache may lack what the rule keeps by now.
func (f *Failures) Behind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists.Behind()
}

// Forget lets go of what has failed: whatever is listed and watched from now on begins anew. The caller has canceled
// the earlier list or watch. Its failures are not noted any more, even if a request of it ends later.
func (f *Failures) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decodeError.Store(false)
	f.last, f.listed, f.counted = nil, false, false
	f.changed.Notify()
}

// Wake closes the channel of Changed: what a caller waits for may have come without a failure of
// listing or watching.
func (f *Failures) Wake() { f.changed.Notify() }

func (f *Failures) setLocked(last *Failure) {
	if f.last != nil || last != nil {
		f.last = last
		f.changed.Notify()
	}
}

// begin notes that a request begins.
func (f *Failures) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted, f.begun = false, time.Now()
}

// Begun returns when the newest request began. It is zero if there was none.
func (f *Failures) Begun() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun
}

// answered notes that the API server accepted a request. Before the first list is complete it may
// still lead to nothing.
func (f *Failures) answered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listed && !f.decodeError.Load() {
		f.setLocked(nil)
	}
}

// note notes the error of a request with that context, unless it was canceled: by the end of the informer, or before
// Forget. An attempt counts once, and its last error says most.
func (f *Failures) note(ctx context.Context, err error) { f.noteAs(ctx, err, false) }

func (f *Failures) noteAs(ctx context.Context, err error, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noteLocked(ctx, err, ended)
}

// noteShared is note for a request that others share. Before a list is complete, one of the caller's own is under way, which may not fail.
func (f *Failures) noteShared(ctx context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listed {
		f.noteLocked(ctx, err, false)
	}
}

func (f *Failures) noteLocked(ctx context.Context, err error, ended bool) {
	if errors.Is(ctx.Err(), context.Canceled) { // with the lock: Forget comes before, or takes the error away
		return
	}
	next := Failure{Err: err, Since: time.Now(), Ended: ended}
	if f.last != nil {
		next.Since, next.Attempts = f.last.Since, f.last.Attempts
	}
	if !f.counted {
		f.counted = true
		next.Attempts++
	}
	if decodeError := (*DecodeError)(nil); errors.As(err, &decodeError) {
		f.decodeError.Store(true)
	}
	f.setLocked(&next)
}

// noteStatus notes an error if the API server answered with it. The transport has noted other
// errors of the request, in fewer words.
func (f *Failures) noteStatus(ctx context.Context, err error) {
	if _, ok := err.(apierrors.APIStatus); ok && !errors.As(err, new(relist.Error)) {
		f.note(ctx, err)
	}
}

// Handler returns an error handler for a Reflector. It notes the error and calls next.
func (f *Failures) Handler(next toolscache.WatchErrorHandlerWithContext) toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		f.noteAs(ctx, err, true)
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

// DecodeError is the error for a list with an object that does not fit the Go type of its kind.
type DecodeError struct {
	// Object is the key of the object. It is empty if it is unknown.
	Object types.NamespacedName
	err    error
}

// Error implements error.
func (e *DecodeError) Error() string { return e.err.Error() }

// Unwrap returns the error of the decoder.
func (e *DecodeError) Unwrap() error { return e.err }

// StatusError is the error for an answer of the API server, or of a proxy before it, as far as its
// HTTP status says.
type StatusError struct {
	Code int
	text string
}

// Error implements error.
func (e *StatusError) Error() string { return e.text }

type observedTransport struct {
	next     http.RoundTripper
	failures *Failures
}

// RoundTrip implements http.RoundTripper.
func (t *observedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.failures.begin()
	response, err := t.next.RoundTrip(r)
	switch to := r.URL.Scheme + "://" + r.URL.Host + r.URL.Path; {
	case err != nil:
		t.failures.note(r.Context(), fmt.Errorf("%s %s: %w", r.Method, to, err))
	case response.StatusCode >= http.StatusBadRequest:
		t.failures.note(r.Context(), &StatusError{response.StatusCode, fmt.Sprintf("%s %s: the server answered %s", r.Method, to, response.Status)})
	case !errors.Is(r.Context().Err(), context.Canceled):
		t.failures.answered()
	}
	return response, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (t *observedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

type observedSource struct {
	Source
	failures *Failures
	watching atomic.Pointer[context.Context] // of the newest watch. There is one at a time, and its end waits for Finish
}

func (s *observedSource) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := s.Source.List(ctx, opts)
	s.failures.noteStatus(ctx, err)
	return list, err
}

func (s *observedSource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	s.watching.Store(&ctx)
	w, err := s.Source.Watch(ctx, opts)
	s.failures.noteStatus(ctx, err)
	return w, err
}

// Join implements Joiner.
func (s *observedSource) Join(ctx context.Context, opts metav1.ListOptions, to Joined) (joined bool, err error) {
	s.watching.Store(&ctx)
	joined, err = Join(ctx, s.Source, opts, to)
	s.failures.noteStatus(ctx, err)
	return joined, err
}

func (s *observedSource) Finish(event watch.Event) watch.Event {
	event = s.Source.Finish(event)
	if event.Type == watch.Error {
		s.failures.note(*s.watching.Load(), apierrors.FromObject(event.Object))
	}
	return event
}

// IsTimeout reports whether an error of a request says that nobody has answered it in time.
func IsTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &network) && network.Timeout()
}
