// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"io"
	"net/http"
)

// RoundTripper returns a transport that applies the rules for the fault point Webhook to the requests with which the server calls
// webhooks through next.
func (i *Injector) RoundTripper(next http.RoundTripper) http.RoundTripper {
	return &webhooks{next, i}
}

type webhooks struct {
	next     http.RoundTripper
	injector *Injector
}

// RoundTrip implements http.RoundTripper.
func (t *webhooks) RoundTrip(req *http.Request) (*http.Response, error) {
	for _, r := range t.injector.inForce(Webhook) {
		a, ok := r.action.(webhookAction)
		if !ok || r.Path != "" && r.Path != req.URL.Path || !r.asks(func() Held { return Held{Path: req.URL.Path} }) || !r.hit() {
			continue
		}
		if resp, err := a.roundTrip(req, r.over); resp != nil || err != nil {
			closeBody(req)
			return resp, err
		}
		break
	}
	return t.next.RoundTrip(req)
}

// WrappedRoundTripper returns the transport below.
func (t *webhooks) WrappedRoundTripper() http.RoundTripper { return t.next }

// response is the answer as a client gets it.
func (a *answer) response(req *http.Request) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.code, http.StatusText(a.code)), StatusCode: a.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: req,
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
