// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"net/http"
	"sync"
)

// activity is what can be seen of a controller from outside: whether it does something. It is safe for concurrent use.
type activity struct {
	mu       sync.Mutex // guards what follows
	count    int        // of requests that began or ended, and of events
	flying   int        // requests without an answer
	down     bool       // it is being started again
	expected bool       // it has to ask something: it was started, or one of its requests has failed
}

// now returns the count, whether the controller is busy, and whether it has yet to ask something.
func (a *activity) now() (count int, busy, expected bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count, a.flying > 0 || a.down, a.expected
}

// saw notes a request or an event.
func (a *activity) saw() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
}

// expect notes that the controller runs, and has reason to ask something.
func (a *activity) expect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	a.down, a.expected = false, true
}

// goDown notes that the controller is being ended, to be started again.
func (a *activity) goDown() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = true
}

func (a *activity) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	a.flying++
	a.expected = false
}

func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	a.flying--
}

// wrap is for rest.Config.Wrap: it sees all requests, those for discovery too.
func (a *activity) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		a.begin()
		defer a.end()
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
