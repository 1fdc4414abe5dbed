// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// following runs a Follower with something to follow, and returns what ends it: it waits for the end.
func following(t *testing.T, transport http.RoundTripper, logger logr.Logger) (end func()) {
	t.Helper()
	s, err := New(&rest.Config{}, &http.Client{Transport: transport}, logger)
	if err != nil {
		t.Fatal(err)
	}
	s.Follow(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, nil, func(State) {})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// TestRunEndsAtOnceWhileTheServerIsAway: the Reflector waits for up to a minute before it asks a
// server again that refuses connections, and does not look at its context meanwhile.
func TestRunEndsAtOnceWhileTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := following(t, unreachable{}, logr.Discard())
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		begin := time.Now()
		end()
		NewWithT(t).Expect(time.Since(begin)).To(BeZero())
	})
}

// recovering is an API server that fails, or serves CRDs and APIServices without having any.
type recovering struct {
	fails    atomic.Bool
	attempts atomic.Int64  // streaming lists of CRDs that were asked for
	end      chan struct{} // ends a watch
}

// RoundTrip implements http.RoundTripper.
func (s *recovering) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	streaming := r.URL.Query().Get("sendInitialEvents") != ""
	crds := strings.Contains(r.URL.Path, "customresourcedefinitions")
	if streaming && crds {
		s.attempts.Add(1)
	}
	body := `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"items":[]}`
	switch {
	case s.fails.Load() && crds:
		response.StatusCode, body = http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`
	case streaming:
		response.StatusCode, body = http.StatusUnprocessableEntity, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`
	case r.URL.Query().Get("watch") != "":
		response.Body = idleBody{s.end, r.Context().Done()}
		return response, nil
	}
	response.Body = io.NopCloser(strings.NewReader(body))
	return response, nil
}

// TestWatchesTryAgainSoonAfterALongWatch: what has failed before the watch does not count any more.
func TestWatchesTryAgainSoonAfterALongWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &recovering{end: make(chan struct{})}
		server.fails.Store(true)
		end := following(t, server, logr.Discard())
		time.Sleep(10 * time.Minute)
		server.fails.Store(false)
		time.Sleep(5 * time.Minute) // a watch is open
		server.fails.Store(true)
		before := server.attempts.Load()
		close(server.end)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		g.Expect(server.attempts.Load()-before).To(BeNumerically(">=", 2), "client-go waits for 1.6 and then for 3.2 seconds at most")
		end()
	})
}

// listing is an API server that lets CRDs be listed, and not be watched.
type listing struct {
	recovering
	lists atomic.Int64 // of CRDs
}

// RoundTrip implements http.RoundTripper.
func (s *listing) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "customresourcedefinitions") {
		return s.recovering.RoundTrip(r)
	}
	if r.URL.Query().Get("watch") == "" {
		s.lists.Add(1)
		return s.recovering.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))}, nil
}

// TestTheRightToListWithoutTheRightToWatchIsLoggedOnce: each try finds the one, and then lacks the other.
func TestTheRightToListWithoutTheRightToWatchIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, lines := &listing{recovering: recovering{end: make(chan struct{})}}, make(chan string, 100)
		end := following(t, server, funcr.New(func(_, line string) { lines <- line }, funcr.Options{}))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		g.Expect(server.lists.Load()).To(BeNumerically(">=", 9))
		g.Expect(lines).To(HaveLen(1))
		end()
	})
}

// unreachable is an API server that refuses connections.
type unreachable struct{}

// RoundTrip implements http.RoundTripper.
func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// idleBody is the body of a watch that brings nothing until it ends.
type idleBody struct{ expire, gone <-chan struct{} }

// Read implements io.Reader.
func (b idleBody) Read([]byte) (int, error) {
	select {
	case <-b.expire:
	case <-b.gone:
	}
	return 0, io.EOF
}

// Close implements io.Closer.
func (idleBody) Close() error { return nil }
