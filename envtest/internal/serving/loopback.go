// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// serverAgent is how the server calls itself in requests, and so in the managed fields of what it writes.
const serverAgent = "kube-apiserver"

// Loopback are the clients with which the server asks itself.
type Loopback struct {
	Config    *rest.Config
	Kube      kubernetes.Interface
	Dynamic   dynamic.Interface
	Informers *informerFactory
	requests  Requests // requests that wait for an answer
}

// NewLoopback makes the clients from a configuration of the server's own user, which it keeps and changes.
func NewLoopback(config *rest.Config) (*Loopback, error) {
	l := &Loopback{Config: config}
	config.UserAgent = serverAgent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countedTransport{next, &l.requests} })
	typed := Protobuf(config)
	client, err := rest.HTTPClientFor(typed)
	if err != nil {
		return nil, fmt.Errorf("create the server's connection to itself: %w", err)
	}
	kube, err := kubernetes.NewForConfigAndClient(typed, client)
	if err != nil {
		return nil, fmt.Errorf("create the server's client: %w", err)
	}
	quiet := rest.CopyConfig(config)
	quiet.WarningHandlerWithContext = rest.NoWarnings{} // a deprecated version is the user's business
	dyn, err := dynamic.NewForConfig(quiet)
	if err != nil {
		return nil, fmt.Errorf("create the server's dynamic client: %w", err)
	}
	l.Kube, l.Dynamic, l.Informers = kube, dyn, newInformerFactory(kube, typed, client)
	return l, nil
}

// Close refuses further requests and returns when the waiting ones have their answer. Some plugins ask without a
// context, and would complain and retry for seconds after the server is gone.
func (l *Loopback) Close() { l.requests.Close() }

// Refuse lets no further request begin.
func (l *Loopback) Refuse() { l.requests.Refuse() }

// ErrStopping is what the server's own clients get when it stops. They do not retry a request that was cancelled.
var ErrStopping = fmt.Errorf("the server is stopping: %w", context.Canceled)

// countedTransport knows the requests whose answer has not arrived. Watches count until they begin to stream.
type countedTransport struct {
	next     http.RoundTripper
	requests *Requests
}

// RoundTrip implements http.RoundTripper.
func (t countedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.requests.Enter() {
		return nil, ErrStopping
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil && t.requests.refusing() {
		err = ErrStopping
	}
	if err != nil || req.URL.Query().Has("watch") {
		t.requests.Leave()
		return resp, err
	}
	resp.Body = countedBody{resp.Body, sync.OnceFunc(t.requests.Leave)}
	return resp, nil
}

// countedBody is an answer that has arrived when it is closed.
type countedBody struct {
	io.ReadCloser
	leave func()
}

// Close implements io.Closer.
func (b countedBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}

// Protobuf returns a copy of config for typed clients.
func Protobuf(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.ContentType = runtime.ContentTypeProtobuf
	return c
}

// Impatient returns a copy of config for controllers that pass no context, and have queues of their own. The client leaves it to
// them when to ask again: it would sleep for the time that an answer names in Retry-After, which can outlive the server.
func Impatient(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return impatientTransport{next} })
	return c
}

// impatientTransport hides when to ask again.
type impatientTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t impatientTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		resp.Header.Del("Retry-After")
	}
	return resp, err
}
