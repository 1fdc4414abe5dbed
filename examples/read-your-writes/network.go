// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// network is what lies between the program and the API server: watches of Secrets are late.
type network struct {
	delay     time.Duration
	conflicts atomic.Int64 // answers of 409
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (n *network) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if answer.StatusCode == http.StatusConflict {
			n.conflicts.Add(1)
		}
		if n.delay > 0 && r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/secrets") {
			answer.Body = newLateBody(answer.Body, n.delay)
		}
		return answer, nil
	})
}

// lateBody passes on what it reads after a while, in order.
type lateBody struct {
	body   io.ReadCloser
	parts  chan part
	now    part
	closed chan struct{}
	close  sync.Once
}

// part is what was read at once, and when it is due.
type part struct {
	bytes []byte
	err   error
	due   time.Time
}

// newLateBody returns a body whose goroutine ends when it is closed.
func newLateBody(body io.ReadCloser, delay time.Duration) *lateBody {
	b := &lateBody{body: body, parts: make(chan part, 1024), closed: make(chan struct{})}
	go func() {
		for {
			bytes := make([]byte, 32<<10)
			n, err := body.Read(bytes)
			select {
			case b.parts <- part{bytes[:n], err, time.Now().Add(delay)}:
			case <-b.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return b
}

// Read implements io.Reader.
func (b *lateBody) Read(into []byte) (int, error) {
	for len(b.now.bytes) == 0 {
		if b.now.err != nil {
			return 0, b.now.err
		}
		select {
		case b.now = <-b.parts:
		case <-b.closed:
			return 0, http.ErrBodyReadAfterClose
		}
		select {
		case <-time.After(time.Until(b.now.due)):
		case <-b.closed:
			return 0, http.ErrBodyReadAfterClose
		}
	}
	n := copy(into, b.now.bytes)
	b.now.bytes = b.now.bytes[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *lateBody) Close() error {
	b.close.Do(func() { close(b.closed) })
	return b.body.Close()
}
