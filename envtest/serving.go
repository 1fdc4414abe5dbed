// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	readHeaderTimeout = 32 * time.Second // as in kube-apiserver: just below its limit for requests

	// HTTP/2 windows as in kube-apiserver: most requests fit into one frame.
	streamWindow         = 256 << 10
	maxConcurrentStreams = 100
)

// serving is the HTTPS listener of one server and the requests that are in it.
type serving struct {
	listener net.Listener
	streams  int // of a connection; zero is the default
	server   *http.Server
	requests requests
	done     chan struct{} // closed when the accept loop has ended
	err      error         // of the accept loop; read after done
}

// listen takes a loopback port. Connections wait in its backlog until serve is called.
func listen() (*serving, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on a loopback port: %w", err)
	}
	return &serving{listener: listener, done: make(chan struct{})}, nil
}

// address returns host and port.
func (s *serving) address() string { return s.listener.Addr().String() }

// serve answers requests until stop is called. There is no time-out for idle connections: clients have their own, and a
// connection that is closed in the middle of a watch would keep the whole server in memory until its time-out has passed.
func (s *serving) serve(handler http.Handler, config *tls.Config) {
	streams := cmp.Or(s.streams, maxConcurrentStreams)
	s.server = &http.Server{
		Handler:           s.requests.track(handler),
		TLSConfig:         config,
		ReadHeaderTimeout: readHeaderTimeout,
		MaxHeaderBytes:    1 << 20,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          streams,
			MaxReadFrameSize:              streamWindow,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: streamWindow * streams,
		},
		ErrorLog: log.New(io.Discard, "", 0), // a client that goes away is no news
	}
	go func() {
		defer close(s.done)
		s.err = s.server.ServeTLS(s.listener, "", "")
	}()
}

// stop closes the listener and every connection, after requests in flight had grace to end; watches never end by
// themselves and are cut. It returns when no request runs any more.
func (s *serving) stop(grace time.Duration) error {
	if s.server == nil { // never served
		return s.listener.Close()
	}
	if grace > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = s.server.Shutdown(ctx) // what is left after grace is closed below
	}
	err := s.server.Close()
	s.requests.close()
	<-s.done
	if errors.Is(s.err, http.ErrServerClosed) {
		return err
	}
	return errors.Join(err, s.err)
}

// requests counts requests that are being worked on. It is safe for concurrent use.
type requests struct {
	mu      sync.Mutex
	closed  bool           // guarded by mu
	running sync.WaitGroup // Add only with mu held and closed false
}

// enter reports whether a further request may begin; leave has to be called after it.
func (r *requests) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.running.Add(1)
	return true
}

func (r *requests) leave() { r.running.Done() }

// refuse lets no further request begin.
func (r *requests) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// refusing reports whether further requests are refused.
func (r *requests) refusing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// close refuses further requests and waits for those that began.
func (r *requests) close() {
	r.refuse()
	r.running.Wait()
}

// track wraps a handler so that close knows of it.
func (r *requests) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !r.enter() {
			http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
			return
		}
		defer r.leave()
		next.ServeHTTP(w, req)
	})
}
