// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/note"
)

// exchange is what the requests of one call to a client have come to. The call makes them one after
// another, so an exchange belongs to its goroutine.
type exchange struct {
	dryRun   bool
	status   int // of the last response; 0 if there was none
	body     bytes.Buffer
	complete bool // the body was read to its end
	unknown  bool // a request may have had an effect, though no response says so

	follower note.Follower // nil if nobody asks for what follows
	demanded string        // the resource version that the last request demands of the object; empty if it demands none
}

// exchangeKey is the key of the exchange in the context of a call.
type exchangeKey struct{}

func (x *exchange) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// begin notes that a request comes.
func (x *exchange) begin(r *http.Request) {
	x.dryRun = r.URL.Query().Has("dryRun")
	if x.follower != nil {
		x.demanded = demandedBy(r)
	}
	x.status, x.complete = 0, false
	x.body.Reset()
}

// answered reports whether the server has said that it did what it was asked for.
func (x *exchange) answered() bool {
	return x.status >= http.StatusOK && x.status < http.StatusMultipleChoices && x.complete
}

// ambiguous reports whether it is not known if the server did what it was asked for.
func (x *exchange) ambiguous() bool {
	return x.unknown || x.status >= http.StatusOK && x.status < http.StatusMultipleChoices && !x.complete
}

// replaced returns what the write has replaced for certain: an unconditional one may have changed the version of another writer, and one that
// changes nothing is answered with that.
func (x *exchange) replaced() string {
	if x.status == http.StatusCreated {
		return note.Nothing
	}
	return x.demanded
}

// demandedBy returns the resource version in the body of a request: a server writes no other version. A JSON patch has none.
func demandedBy(r *http.Request) string {
	if r.GetBody == nil {
		return ""
	}
	copied, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer func() { _ = copied.Close() }()
	body, err := io.ReadAll(copied)
	if err != nil {
		return ""
	}
	m := metav1.PartialObjectMetadata{}
	if sent, err := readResponse(body); err != nil || sent.into(&m) != nil {
		return ""
	}
	return m.ResourceVersion
}

// partly reports whether a refused deletion of a collection may have had an effect: whether it was
// refused for one of the objects, as by a webhook, and not as a whole before the first one. A webhook that
// names no status refuses with 400.
func (x *exchange) partly() bool {
	switch x.status {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusTooManyRequests,
		http.StatusNotAcceptable, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return false
	case http.StatusForbidden:
		return !x.unauthorized()
	}
	return x.status >= http.StatusBadRequest
}

// unauthorized reports whether the deletion of a collection was forbidden by the authorizer. Admission forbids
// with the same reason, and it names the object or says something else.
func (x *exchange) unauthorized() bool {
	r, err := readResponse(x.body.Bytes())
	status := metav1.Status{}
	return x.complete && err == nil && r.gvk.Kind == "Status" && r.into(&status) == nil &&
		status.Details != nil && status.Details.Name == "" && strings.Contains(status.Message, "cannot deletecollection resource")
}

// transport refuses a write whose context has ended or has a fence that says so. It keeps the answer to a write in the exchange of its
// context.
type transport struct{ next http.RoundTripper }

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return t.next.RoundTrip(r)
	}
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if ok {
		x.begin(r)
	}
	if err := cmp.Or(context.Cause(r.Context()), note.CheckFence(r.Context())); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must
		}
		return nil, err // not by http.Transport, after whose error the write would count as ambiguous
	}
	if !ok {
		return t.next.RoundTrip(r)
	}
	way := &way{}
	response, err := t.next.RoundTrip(r.WithContext(way.in(r.Context())))
	if err != nil {
		x.unknown = x.unknown || way.sent(err)
		return response, err
	}
	x.status = response.StatusCode
	if x.status >= http.StatusInternalServerError {
		x.unknown = true // a time-out of the server or of a proxy, or an error behind the storage
	}
	response.Body = &tee{ReadCloser: response.Body, into: x}
	return response, nil
}

// way is how far a request has come. The hooks may be called when the request has ended already.
type way struct{ traced, connected atomic.Bool }

// in adds the hooks to the hooks of a context.
func (w *way) in(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { w.traced.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { w.connected.Store(true) }, // the handshake of TLS has ended
	})
}

// sent reports whether a request that failed with err may have reached the server. A transport that calls no
// hook is only known not to have sent it if it could not dial.
func (w *way) sent(err error) bool {
	if w.traced.Load() {
		return w.connected.Load()
	}
	failed := (*net.OpError)(nil)
	return !errors.As(err, &failed) || failed.Op != "dial"
}

// tee is a body. Its exchange keeps what is read.
type tee struct {
	io.ReadCloser
	into *exchange
}

// Read implements io.Reader.
func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.into.body.Write(p[:n])
	if err == io.EOF {
		t.into.complete = true
	}
	return n, err
}
