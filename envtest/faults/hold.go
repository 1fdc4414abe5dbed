// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Held is something that a Hold holds back, or Rule.When is asked about: a request, or an event of a watch.
type Held struct {
	// Verb is the request's verb, or watch for an event.
	Verb string
	// Group and Resource are the request's. The group of Pods is "core".
	Group, Resource string
	// Subresource is the request's subresource, such as status.
	Subresource string
	// Type is the event's type, such as ADDED or BOOKMARK; empty for a request.
	Type string
	// Namespace, Name and ResourceVersion are those of the object; what a request does not say is empty. The name of an object
	// that is being created is read from it. GenerateName is there in events, and in requests that create.
	Namespace, Name, GenerateName, ResourceVersion string
	// Path is the path of a webhook's URL, for its call.
	Path string
	// UserAgent is the user agent of the client.
	UserAgent string
}

// String describes it for messages of tests.
func (h Held) String() string {
	what := h.Verb
	if h.Type != "" {
		what = h.Type
	}
	return fmt.Sprintf("%s %s %s/%s", what, h.Resource, h.Namespace, h.Name)
}

// Hold holds back what its rule matches until it is let go. Requests wait before the server sees them. The events of a watch
// stay in order: events behind a held one wait too, even if the rule does not match them, and pass after it. A rule without a
// verb matches requests and events; one with the verb watch matches events alone, and not the request for the watch.
type Hold struct {
	injector *Injector
	rule     *rule
	answers  bool    // holds answers, and not requests
	items    []*item // guarded by rule.mu: what is held, in the order of arrival
	bytes    int     // guarded by rule.mu: of the events and answers
}

// item is one thing that is held.
type item struct {
	Held
	size int
	free func() // lets it go; called once, without locks
}

// Hold begins to hold back what the rule matches.
func (i *Injector) Hold(r Rule) (*Hold, error) {
	if r.Station != HTTP {
		return nil, fmt.Errorf("hold back: the fault point %s holds nothing back, only %s does", r.Station, HTTP)
	}
	h := &Hold{injector: i}
	if _, err := i.add(r, nil, h); err != nil {
		return nil, fmt.Errorf("hold back: %w", err)
	}
	return h, nil
}

// HoldAnswers begins to hold back the answers to the requests that the rule matches: the server has handled them, a write has taken
// effect, and the client waits. When it goes, its answer is forgotten. An answer for which the Hold has no room passes at once. A
// rule without a verb means all but watches here.
func (i *Injector) HoldAnswers(r Rule) (*Hold, error) {
	if err := endless(&r, "HoldAnswers"); err != nil {
		return nil, fmt.Errorf("hold back answers: %w", err)
	}
	if r.Station != HTTP {
		return nil, fmt.Errorf("hold back answers: the fault point %s holds nothing back, only %s does", r.Station, HTTP)
	}
	if r.Type != "" {
		return nil, errors.New("hold back answers: events have a type, and answers have none")
	}
	h := &Hold{injector: i, answers: true}
	if _, err := i.add(r, nil, h); err != nil {
		return nil, fmt.Errorf("hold back answers: %w", err)
	}
	return h, nil
}

// Held returns what is held now, in the order of arrival. The slice is the caller's own.
func (h *Hold) Held() []Held {
	h.rule.mu.Lock()
	defer h.rule.mu.Unlock()
	all := make([]Held, len(h.items))
	for i, one := range h.items {
		all[i] = one.Held
	}
	return all
}

// Hits returns how many were held back since the beginning.
func (h *Hold) Hits() int { return h.rule.count() }

// Wait returns when n or more are held. The error is that of the context, or that the Hold has ended.
func (h *Hold) Wait(ctx context.Context, n int) error {
	return h.rule.wait(ctx, func() bool { return len(h.items) >= n }, func() string {
		return fmt.Sprintf("%d are held back, not %d", len(h.items), n)
	})
}

// Next waits until something is held, lets the oldest item go, and returns it. The error is that of the context, or that the
// Hold has ended.
func (h *Hold) Next(ctx context.Context) (Held, error) {
	for {
		if err := h.Wait(ctx, 1); err != nil {
			return Held{}, err
		}
		if let := h.Release(1); len(let) > 0 {
			return let[0], nil
		}
	}
}

// Release lets those go that arrived first, at most n of them, and returns them. The Hold stays in force.
func (h *Hold) Release(n int) []Held {
	h.rule.mu.Lock()
	n = max(0, min(n, len(h.items)))
	out := h.items[:n:n]
	h.items = h.items[n:]
	for _, one := range out {
		h.bytes -= one.size
	}
	h.rule.changed.Notify()
	h.rule.mu.Unlock()
	let := make([]Held, len(out))
	for i, one := range out {
		one.free()
		let[i] = one.Held
	}
	return let
}

// End lets all go, and holds nothing back any more.
func (h *Hold) End() {
	h.injector.remove(h.rule)
	h.rule.end()
	for len(h.Release(int(^uint(0)>>1))) > 0 {
	}
}

// keep holds one back that was hit. It returns false if the Hold has ended, or would hold too many bytes.
func (h *Hold) keep(one *item) (ok, full bool) {
	h.rule.mu.Lock()
	defer h.rule.mu.Unlock()
	h.cameLocked()
	switch {
	case h.rule.ended:
		return false, false
	case h.bytes+one.size > h.injector.buffer:
		return false, true
	}
	h.items = append(h.items, one)
	h.bytes += one.size
	h.rule.changed.Notify()
	return true, false
}

// cameLocked notes that a hit request or event is there, or will not come.
func (h *Hold) cameLocked() {
	h.rule.coming--
	h.rule.changed.Notify()
}

// missed notes that a hit request or event will not come.
func (h *Hold) missed() {
	h.rule.mu.Lock()
	defer h.rule.mu.Unlock()
	h.cameLocked()
}

// forget drops an item whose client has gone.
func (h *Hold) forget(one *item) {
	h.rule.mu.Lock()
	defer h.rule.mu.Unlock()
	for i, other := range h.items {
		if other == one {
			h.items = append(h.items[:i:i], h.items[i+1:]...)
			h.bytes -= one.size
			h.rule.changed.Notify()
			return
		}
	}
}

// keepRequest holds a request back, or an answer of some size, and returns when it may go on. It returns false if its client has
// gone.
func (h *Hold) keepRequest(ctx context.Context, what Held, size int) bool {
	free := make(chan struct{})
	one := &item{Held: what, size: size, free: func() { close(free) }}
	if ok, _ := h.keep(one); !ok {
		return true
	}
	select {
	case <-free:
		return true
	case <-ctx.Done():
		h.forget(one)
		return false
	}
}

// serve lets a request go on when it may, or its answer.
func (h *Hold) serve(w http.ResponseWriter, req *http.Request, q *request, next http.Handler) {
	what := q.held() // whose name may be in the body
	if !h.answers {
		if h.keepRequest(req.Context(), what, 0) {
			next.ServeHTTP(w, req)
		}
		return
	}
	a := h.answer(next, req)
	if !h.keepRequest(req.Context(), what, a.body.Len()) {
		panic(http.ErrAbortHandler) // nobody reads it
	}
	a.copyHeader(w)
	_, _ = w.Write(a.body.Bytes())
}

// answer lets the server handle a request, and returns what it answers.
func (h *Hold) answer(next http.Handler, req *http.Request) *answer {
	a, answered := &answer{header: http.Header{}}, false
	defer func() {
		if !answered { // the handler has panicked
			h.missed()
		}
	}()
	next.ServeHTTP(a, req)
	answered = true
	return a
}
