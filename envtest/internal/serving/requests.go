// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"net/http"
	"sync"
)

// Requests counts requests that are being worked on. It is safe for concurrent use.
type Requests struct {
	mu      sync.Mutex
	closed  bool           // guarded by mu
	running sync.WaitGroup // Add only with mu held and closed false
}

// Enter reports whether a further request may begin; Leave has to be called after it.
func (r *Requests) Enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.running.Add(1)
	return true
}

func (r *Requests) Leave() { r.running.Done() }

// Refuse lets no further request begin.
func (r *Requests) Refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// refusing reports whether further requests are refused.
func (r *Requests) refusing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Close refuses further requests and waits for the others to end.
func (r *Requests) Close() {
	r.Refuse()
	r.running.Wait()
}

// Track wraps a handler so that Close knows of it.
func (r *Requests) Track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !r.Enter() {
			http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
			return
		}
		defer r.Leave()
		next.ServeHTTP(w, req)
	})
}
