// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
)

// server is where the metrics server of the manager listens, and a door to it for a browser.
type server struct {
	address string
	folder  string // of the certificate and of the token, which only the user can read
	pair    tls.Certificate
	trusted *x509.CertPool
	door    *http.Server // nil until it is opened
}

// newServer chooses a port of the loopback interface and makes a certificate for it.
func newServer() (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{address: listener.Addr().String(), trusted: x509.NewCertPool()}
	if err := listener.Close(); err != nil { // the manager opens it again: it takes an address alone
		return nil, err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	s.trusted.AppendCertsFromPEM(certificate)
	if s.pair, err = tls.X509KeyPair(certificate, key); err != nil {
		return nil, err
	}
	if s.folder, err = os.MkdirTemp("", "tarn-inspect-"); err != nil {
		return nil, err
	}
	return s, os.WriteFile(filepath.Join(s.folder, "ca.crt"), certificate, 0o600)
}

func (s *server) tls() []func(*tls.Config) {
	return []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.pair, nil }
	}}
}

// openDoor opens a port for a browser, which cannot send a token by itself: a proxy adds the token.
// Other users of the machine do not know the path, which is as secret as a token.
func (s *server) openDoor(token string) (string, error) {
	secret := "/" + rand.Text()
	to := &url.URL{Scheme: "https", Host: s.address}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.trusted}},
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+secret+"/", http.StripPrefix(secret, proxy))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.door = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.door.Serve(listener) }() // ends with Close
	return "http://" + listener.Addr().String() + secret + "/inspect/", nil
}

// wait waits until the page answers.
func (s *server) wait(ctx context.Context, door string) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, door, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the page does not answer: %w", errors.Join(err, context.Cause(ctx)))
		}
	}
}

// describe prints how to look.
func (s *server) describe(out io.Writer, token, door string) error {
	file := filepath.Join(s.folder, "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `The metrics server of the manager has a page about its cache. Five kinds are there to be looked at:

  ConfigMap  is written and reconciled all the time, and one of its handlers is slow
  Secret     is synced, and its values are not shown
  Service    has a watch that brings nothing
  Node       is forbidden
  Lake       is not served

As JSON, with the token of a ServiceAccount that may get /inspect/*:

  curl --cacert %s -H "Authorization: Bearer $(cat %s)" https://%s/inspect/api/v1/overview

In a browser, through a port of this example that adds the token:

  %s

`, filepath.Join(s.folder, "ca.crt"), file, s.address, door)
	return err
}

// Close closes the door and removes the files.
func (s *server) Close() error {
	var err error
	if s.door != nil {
		err = s.door.Close()
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}
