// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// UpdatesPath is where a measured process asks for update events: it posts [Updates]
// in JSON. The answer comes as soon as they begin to be sent.
const UpdatesPath = "/bench/updates"

// Server serves one measured process on a loopback address.
type Server struct {
	catalog  *Catalog
	token    string
	listener net.Listener
	http     *http.Server
	done     chan struct{} // closed when http has ended
	requests chan Updates

	lists, streams atomic.Int32

	mu         sync.Mutex
	complaints []error // guarded by mu
}

// Serve starts a server that admits whoever knows its random token. The caller
// closes it.
func Serve(catalog *Catalog) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve Pods: %w", err)
	}
	s := &Server{
		catalog: catalog, token: rand.Text(), listener: listener,
		done: make(chan struct{}), requests: make(chan Updates),
	}
	mux := http.NewServeMux()
	for _, resource := range []Resource{Pods, Workloads} {
		mux.HandleFunc("GET "+string(resource), func(w http.ResponseWriter, r *http.Request) { s.objects(w, r, resource) })
	}
	mux.HandleFunc("POST "+UpdatesPath, s.update)
	s.http = &http.Server{Handler: s.authenticated(mux)}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.complain(fmt.Errorf("serve Pods: %w", err))
		}
	}()
	return s, nil
}

// URL is the address to give to a client.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Token is the bearer token to give to a client.
func (s *Server) Token() string { return s.token }

// Close breaks all connections and waits for the server's end.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

// Check returns an error unless the process has read everything once: a second list
// or watch would be part of its figures.
func (s *Server) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lists, streams := s.lists.Load(), s.streams.Load(); streams != 1 || lists > 1 {
		s.complaints = append(s.complaints, fmt.Errorf("the cache opened %d lists and %d watches of Pods, want at most 1 and 1", lists, streams))
	}
	return errors.Join(s.complaints...)
}

func (s *Server) complain(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complaints = append(s.complaints, err)
}

func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.token)) != 1 {
			http.Error(w, "unknown bearer token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers with an error that ends the measurement, because a client would
// retry, and the time for that would be part of the figures.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	s.complain(fmt.Errorf("%s %s: %s", r.Method, r.URL, why))
	http.Error(w, why, status)
}

func (s *Server) objects(w http.ResponseWriter, r *http.Request, resource Resource) {
	t := s.catalog.tapes[resource]
	if t == nil || !strings.Contains(r.Header.Get("Accept"), resource.mediaType()) {
		s.refuse(w, r, http.StatusNotAcceptable, "not encoded: accepted is "+r.Header.Get("Accept"))
		return
	}
	query := r.URL.Query()
	if query.Get("labelSelector") != "" || query.Get("fieldSelector") != "" {
		s.refuse(w, r, http.StatusBadRequest, "selectors are not served")
		return
	}
	if watched, _ := strconv.ParseBool(query.Get("watch")); !watched {
		s.list(w, r, resource, t)
		return
	}
	initial, _ := strconv.ParseBool(query.Get("sendInitialEvents"))
	if version := query.Get("resourceVersion"); !initial && version != s.catalog.version(0) {
		s.refuse(w, r, http.StatusGone, "a watch from "+version+" is not served, only from the list's")
		return
	}
	s.streams.Add(1)
	w.Header().Set("Content-Type", resource.mediaType()+";stream=watch")
	s.watch(r.Context(), &stream{ResponseWriter: w, controller: http.NewResponseController(w)}, t, initial)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, resource Resource, t *tape) {
	if t.list == nil {
		s.refuse(w, r, http.StatusBadRequest, "plain lists were not encoded")
		return
	}
	s.lists.Add(1)
	w.Header().Set("Content-Type", resource.mediaType())
	w.Header().Set("Content-Length", strconv.Itoa(len(t.list)))
	_, _ = w.Write(t.list) // a client that went away is found out by Check
}

func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	var asked Updates
	if err := errors.Join(json.NewDecoder(r.Body).Decode(&asked), asked.check()); err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	select {
	case s.requests <- asked:
	case <-r.Context().Done():
	}
}

// watch serves a stream until the client ends it.
func (s *Server) watch(ctx context.Context, to *stream, t *tape, initial bool) {
	var err error
	if initial {
		_, err = to.Write(t.stream)
	}
	for err == nil {
		if err = to.controller.Flush(); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case asked := <-s.requests:
			err = s.play(ctx, to, t, asked)
		}
	}
}
