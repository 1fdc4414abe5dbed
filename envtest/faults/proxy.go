// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// NewProxy starts a proxy that applies the rules. It stands before the API server of config, which may be a real one, and listens
// on 127.0.0.1 until the context ends. It returns a config for clients, whose token the proxy alone knows: requests with this
// token go on with the credentials of config. Requests with other credentials or none go on as they are; a client certificate does
// not pass.
//
// The proxy knows neither users nor calls inside the server: Inject and Hold refuse rules with a User, or with another Station
// than HTTP, from now on.
func (i *Injector) NewProxy(ctx context.Context, config *rest.Config) (*rest.Config, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("start a proxy for faults: %w", err)
	}
	full, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("start a proxy for faults: %w", err)
	}
	anonymous, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, fmt.Errorf("start a proxy for faults: %w", err)
	}
	if err := i.fitsProxy(); err != nil {
		return nil, fmt.Errorf("start a proxy for faults: %w", err)
	}
	transport := &credentials{token: rand.Text(), full: full, anonymous: anonymous}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("start a proxy for faults: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("start a proxy for faults: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a proxy for faults: %w", err)
	}
	i.proxy.Store(true)
	attached := i.Attach()
	attached.Ready()
	server := &http.Server{
		Handler: i.Handler(reverse(target, transport)), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 30 * time.Second, ErrorLog: log.New(io.Discard, "", 0), // of connections that are cut
	}
	go func() { _ = server.ServeTLS(listener, "", "") }() // until Close
	context.AfterFunc(ctx, func() {
		_ = server.Close()
		attached.Detach()
		utilnet.CloseIdleConnectionsFor(full)
		utilnet.CloseIdleConnectionsFor(anonymous)
	})
	own := rest.AnonymousClientConfig(config)
	own.Host, own.TLSClientConfig = "https://"+listener.Addr().String(), rest.TLSClientConfig{CAData: certificate}
	own.BearerToken, own.Dial, own.Transport, own.WrapTransport, own.Proxy = transport.token, nil, nil, nil, nil
	own.Impersonate = rest.ImpersonationConfig{}
	return own, nil
}

// fitsProxy says which rule a proxy cannot apply.
func (i *Injector) fitsProxy() error {
	for at, rules := range i.all() {
		for _, r := range rules {
			if r.User != "" {
				return errors.New("there is a rule with a user, whom a proxy does not know")
			}
			if Station(at) != HTTP {
				return fmt.Errorf("there is a rule for the fault point %s, which is inside the server: a proxy has only %s", r.Station, HTTP)
			}
		}
	}
	return nil
}

// credentials lends the credentials of a config to the holder of the token.
type credentials struct {
	token           string
	full, anonymous http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *credentials) RoundTrip(req *http.Request) (*http.Response, error) {
	given, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(c.token)) == 0 {
		return c.anonymous.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	return c.full.RoundTrip(req)
}

// reverse passes requests on as they are.
func reverse(target *url.URL, transport http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target) // with its path before that of the request
			r.Out.Host = ""
		},
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
			if req.Context().Err() == nil && !errors.Is(err, net.ErrClosed) {
				http.Error(w, err.Error(), http.StatusBadGateway)
			}
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
}
