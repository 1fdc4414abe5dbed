// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

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
	"time"
)

const (
	readHeaderTimeout = 32 * time.Second // as in kube-apiserver: just below its limit for requests

	// HTTP/2 windows as in kube-apiserver: most requests fit into one frame.
	streamWindow         = 256 << 10
	maxConcurrentStreams = 100
)

// Listener is the HTTPS listener of one server and the requests that are in it.
type Listener struct {
	listener net.Listener
	streams  int // of a connection; zero is the default
	server   *http.Server
	requests Requests
	done     chan struct{} // closed when the accept loop has ended
	err      error         // of the accept loop; read after done
}

// Listen takes a loopback port. Connections wait in its backlog until Serve is called.
func Listen() (*Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on a loopback port: %w", err)
	}
	return NewListener(listener, 0), nil
}

// NewListener serves on a listener. streams is how many requests a connection may carry at a time; zero is the default.
func NewListener(listener net.Listener, streams int) *Listener {
	return &Listener{listener: listener, streams: streams, done: make(chan struct{})}
}

// Address returns host and port.
func (s *Listener) Address() string { return s.listener.Addr().String() }

// Serve answers requests until Stop is called. There is no time-out for idle connections: clients have their own, and a
// connection that is closed in the middle of a watch would keep the whole server in memory until its time-out has passed.
func (s *Listener) Serve(handler http.Handler, config *tls.Config) {
	streams := cmp.Or(s.streams, maxConcurrentStreams)
	s.server = &http.Server{
		Handler:           s.requests.Track(handler),
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

// Stop closes the listener and every connection, after requests in flight had grace to end; watches never end by
// themselves and are cut. It returns when no request runs any more.
func (s *Listener) Stop(grace time.Duration) error {
	if s.server == nil { // never served
		return s.listener.Close()
	}
	if grace > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = s.server.Shutdown(ctx) // what is left after grace is closed below
	}
	err := s.server.Close()
	s.requests.Close()
	<-s.done
	if errors.Is(s.err, http.ErrServerClosed) {
		return err
	}
	return errors.Join(err, s.err)
}
