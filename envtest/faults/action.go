// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// Action is what happens to a request. The functions of this package make them.
type Action interface {
	// fits returns why the action cannot happen to what the rule matches, at a fault point where it can happen.
	fits(*Rule) error
}

// An action can happen at the fault points whose interfaces it implements, see happensAt.

// requestAction happens to requests, at HTTP.
type requestAction interface {
	Action
	// serve answers the request; next would do so without a fault. Over is closed when the fault ends.
	serve(w http.ResponseWriter, req *http.Request, next http.Handler, over <-chan struct{})
}

// callAction happens to calls, at Storage and Etcd.
type callAction interface {
	Action
	// call returns the error that a call returns in place of its answer, or nil, and then it goes on.
	call(ctx context.Context, over <-chan struct{}) error
}

// webhookAction happens to calls of webhooks.
type webhookAction interface {
	Action
	// roundTrip answers the call; if it returns neither an answer nor an error, the call goes on.
	roundTrip(req *http.Request, over <-chan struct{}) (*http.Response, error)
}

// answerAction happens to answers that have an end: not to watches.
type answerAction interface{ ofAnswers() }

// Respond answers with an error in place of the server, so that a write has no effect. An error of apimachinery's api/errors
// is sent as it is. Another one becomes an internal error (500). A Status with RetryAfterSeconds gets the header Retry-After,
// as from a server that has too much to do.
//
// At the fault points Storage and Etcd the caller gets the error as it is, and a webhook answers with the Status.
func Respond(err error) Action {
	if err == nil {
		err = errors.New("a fault of the test")
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	return respond{err, status.Status()}
}

type respond struct {
	err    error
	status metav1.Status
}

func (respond) fits(*Rule) error { return nil }

func (r respond) serve(w http.ResponseWriter, _ *http.Request, _ http.Handler, _ <-chan struct{}) {
	status := r.status
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	body, err := json.Marshal(status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body)
}

func (r respond) call(context.Context, <-chan struct{}) error { return r.err }

func (r respond) roundTrip(req *http.Request, over <-chan struct{}) (*http.Response, error) {
	w := &answer{header: http.Header{}}
	r.serve(w, req, nil, over)
	return w.response(req), nil
}

// Delay lets a request wait before the server handles it, or until the fault ends. It ends with the request: when its client has
// gone, and, if it is not a watch, when the server gives up on it after a minute (504).
func Delay(d time.Duration) Action { return delay(d) }

type delay time.Duration

func (delay) fits(*Rule) error { return nil }

func (d delay) serve(w http.ResponseWriter, req *http.Request, next http.Handler, over <-chan struct{}) {
	if d.call(req.Context(), over) == nil {
		next.ServeHTTP(w, req)
	}
}

// call returns after the delay, or when the fault is over. The error is that of the context.
func (d delay) call(ctx context.Context, over <-chan struct{}) error {
	timer := time.NewTimer(time.Duration(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (d delay) roundTrip(req *http.Request, over <-chan struct{}) (*http.Response, error) {
	return nil, d.call(req.Context(), over)
}

// DropRequest cuts the connection before the server sees the request: a write has no effect. With HTTP/2 it is the stream of the
// request that is cut, and others on the connection go on.
func DropRequest() Action { return dropRequest{} }

type dropRequest struct{}

func (dropRequest) fits(*Rule) error { return nil }

func (dropRequest) serve(http.ResponseWriter, *http.Request, http.Handler, <-chan struct{}) {
	panic(http.ErrAbortHandler)
}

func (dropRequest) roundTrip(*http.Request, <-chan struct{}) (*http.Response, error) {
	return nil, fmt.Errorf("a fault of the test cut the connection to the webhook: %w", syscall.ECONNRESET)
}

// DropAnswer lets the server handle the request and cuts the connection in place of the answer: a write has taken effect, and
// the client does not know. The cut is that of DropRequest. A rule without a verb means all but watches here.
func DropAnswer() Action { return dropAnswer{} }

type dropAnswer struct{}

func (dropAnswer) ofAnswers()         {}
func (dropAnswer) fits(r *Rule) error { return endless(r, "DropAnswer") }

func (dropAnswer) serve(_ http.ResponseWriter, req *http.Request, next http.Handler, _ <-chan struct{}) {
	next.ServeHTTP(&answer{header: http.Header{}}, req)
	panic(http.ErrAbortHandler)
}

// HalfAnswer lets the server handle the request, writes half of the answer, and cuts what DropRequest cuts. A rule without a verb
// means all but watches here.
func HalfAnswer() Action { return halfAnswer{} }

type halfAnswer struct{}

func (halfAnswer) ofAnswers()         {}
func (halfAnswer) fits(r *Rule) error { return endless(r, "HalfAnswer") }

func (halfAnswer) serve(w http.ResponseWriter, req *http.Request, next http.Handler, _ <-chan struct{}) {
	a := &answer{header: http.Header{}}
	next.ServeHTTP(a, req)
	a.copyHeader(w)
	_, _ = w.Write(a.body.Bytes()[:a.body.Len()/2])
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}

// endless refuses rules that can match only requests without an end.
func endless(r *Rule, action string) error {
	if r.Verb == verbWatch {
		return fmt.Errorf("%s waits for the end of an answer, and that to a watch has none: use Cut", action)
	}
	return nil
}

// answer keeps what a handler writes.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	if a.code == 0 && code >= http.StatusOK {
		a.code = code
	}
}

func (a *answer) Write(b []byte) (int, error) {
	if a.body.Len()+len(b) > heldBytes { // of what has no end, like a log that is followed
		panic(http.ErrAbortHandler)
	}
	return a.body.Write(b)
}

func (a *answer) Flush() {}

// copyHeader begins to answer as the handler did.
func (a *answer) copyHeader(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(a.body.Len()))
	w.WriteHeader(max(a.code, http.StatusOK))
}

// streamAction happens to the events of watches, at HTTP and Storage.
type streamAction interface {
	Action
	// atOnce says whether it happens to watches that are open when it is injected.
	atOnce() bool
	// hit does it to a stream, whose mu is held.
	hit(s *stream)
}

// Cut cuts a watch after n of its events that the rule matches have passed since the fault was injected, or since the watch
// began if that was later: 0 cuts it at once. Earlier events arrive. Times bounds the watches that are cut, and Skip leaves
// some alone: in the order in which they began for 0, or else in which their n-th event has passed. The cut is that of DropRequest.
//
// At the fault point Storage, Cut(0) ends the watch through which a watch cache follows the storage.
func Cut(n int) Action { return cut(n) }

type cut int

func (c cut) fits(r *Rule) error {
	if c < 0 {
		return errors.New("a watch cannot be cut after fewer than no events")
	}
	if r.Station == Storage && c != 0 {
		return errors.New("the fault point Storage does not count events: it has Cut(0)")
	}
	return onlyWatch(r, "Cut")
}

func (c cut) atOnce() bool { return c == 0 }
func (cut) hit(s *stream)  { s.abortLocked() }

// Expire ends a watch with the error that its resourceVersion is too old (410), as a server does that has lost the history. It
// does so at once, and to later watches right after their beginning. A watch whose client does not read is cut.
//
// At the fault point Storage, it ends the watch through which a watch cache follows the storage, which begins anew.
func Expire() Action { return expire{} }

type expire struct{}

func (expire) fits(r *Rule) error { return onlyWatch(r, "Expire") }

func (expire) atOnce() bool { return true }

func (expire) hit(s *stream) {
	s.failLocked(expired())
}

// expired is the error with which Expire ends a watch.
func expired() metav1.Status {
	return apierrors.NewResourceExpired("too old resource version: the watch was ended by a fault of the test").ErrStatus
}

// onlyWatch refuses rules for other requests.
func onlyWatch(r *Rule, action string) error {
	if r.Verb != verbWatch {
		return fmt.Errorf("%s is about the events of watches: the verb of its rule must be %q, and is %q", action, verbWatch, r.Verb)
	}
	return nil
}
