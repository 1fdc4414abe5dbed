// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// lastWords is how long the end of a watch waits for a client that does not read.
const lastWords = time.Second

// stream is the answer to a watch: a response writer that takes the events apart. All of them go through its queue, in which a
// Hold keeps some of them back. The handler of the server puts them in and passes on what may pass. When a Hold lets one go, a
// goroutine passes it on, which ends before the handler does.
type stream struct {
	injector *Injector
	request  *request
	number   uint64             // in the order in which watches began
	cancel   context.CancelFunc // ends the handler
	w        http.ResponseWriter

	mu      sync.Mutex // guards what follows, and is not held while w is written; it is taken before that of a rule
	frames  framing    // nil before the answer begins, and if it is not a watch of events
	begun   bool
	looked  map[*rule]bool // the rules that happen at once and were checked
	queue   []*queued
	waiting int           // bytes in the queue
	passed  map[*rule]int // of Cut: the events that have passed
	last    []byte        // an error, which is the next to pass and ends the watch
	over    bool          // nothing passes any more: it was cut, has failed, or the handler has returned
	aborted bool          // the connection is to be cut
	busy    bool          // somebody writes to w
	idle    *sync.Cond    // not busy any more
	release sync.WaitGroup
}

// queued is an event that waits.
type queued struct {
	frame []byte
	what  Held  // if some rule asked
	hold  *Hold // nil if it waits for those before it
	item  *item
	free  bool
}

// watch serves a watch.
func (i *Injector) watch(q *request, w http.ResponseWriter, req *http.Request, next http.Handler) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	s := &stream{injector: i, request: q, cancel: cancel, w: w, looked: map[*rule]bool{}, passed: map[*rule]int{}}
	s.idle = sync.NewCond(&s.mu)
	i.opens.Lock()
	i.opened++
	s.number = i.opened
	i.open[s] = struct{}{}
	i.opens.Unlock()
	defer s.close()
	req = req.WithContext(ctx)
	req.Header = req.Header.Clone()
	req.Header.Del("Accept-Encoding") // events are taken apart
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(s), req)
}

// close ends the stream when its handler has returned.
func (s *stream) close() {
	s.injector.opens.Lock()
	delete(s.injector.open, s)
	s.injector.opens.Unlock()
	s.mu.Lock()
	queue, ended := s.queue, s.over
	s.queue, s.over = nil, true
	if s.busy {
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(lastWords))
	}
	for s.busy {
		s.idle.Wait()
	}
	aborted := s.aborted
	s.mu.Unlock()
	s.release.Wait()
	for _, one := range queue {
		if one.hold != nil {
			one.hold.forget(one.item)
		}
	}
	if aborted {
		panic(http.ErrAbortHandler)
	}
	if s.frames != nil && !ended && len(queue) == 0 {
		_, _ = s.w.Write(s.frames.left())
	}
}

// sweep applies a rule to the watches that are open, in the order in which they began.
func (i *Injector) sweep(r *rule) {
	if r.Station == Storage {
		i.sweepStored(r)
		return
	}
	i.opens.Lock()
	open := slices.SortedFunc(maps.Keys(i.open), func(a, b *stream) int { return cmp.Compare(a.number, b.number) })
	i.opens.Unlock()
	for _, s := range open {
		s.mu.Lock()
		s.atOnceLocked(r)
		s.mu.Unlock()
	}
}

// atOnceLocked lets a rule happen that does so without an event.
func (s *stream) atOnceLocked(r *rule) {
	a, ok := r.action.(streamAction)
	if !ok || !a.atOnce() || s.frames == nil || s.over || s.last != nil || s.looked[r] || !r.matches(s.request) || !r.meansScope(s.request) {
		return
	}
	s.looked[r] = true
	if r.asks(s.request.held) && r.hit() {
		a.hit(s)
	}
}

// meansScope compares the namespace and the name that a watch is limited to, if it is.
func (r *Rule) meansScope(q *request) bool {
	return (r.Namespace == "" || q.namespace == "" || r.Namespace == q.namespace) && (r.Name == "" || q.name == "" || r.Name == q.name)
}

// Unwrap, Header, WriteHeader, Write and Flush make it a response writer. The handler calls them.
func (s *stream) Unwrap() http.ResponseWriter { return s.w }

func (s *stream) Header() http.Header { return s.w.Header() }

func (s *stream) WriteHeader(code int) {
	s.w.WriteHeader(code)
	if code < http.StatusOK {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return
	}
	s.begun = true
	if code != http.StatusOK {
		return // an error, as it is
	}
	s.frames = framingOf(s.w.Header().Get("Content-Type"))
	for _, r := range s.injector.inForce(HTTP) {
		s.atOnceLocked(r)
	}
}

func (s *stream) Write(b []byte) (int, error) {
	if !s.begun { // the handler alone writes it
		s.WriteHeader(http.StatusOK)
	}
	if s.frames == nil {
		return s.w.Write(b) // nobody else writes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, frame := range s.frames.split(b) {
		if s.over || s.last != nil {
			break // the handler learns of it from its context
		}
		s.putLocked(frame)
	}
	if err := s.pumpLocked(); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (s *stream) Flush() {
	if s.frames == nil {
		s.flush() // the header, or an error
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || s.over {
		return // who is busy flushes
	}
	s.busy = true
	_ = s.passLocked(true)
}

func (s *stream) flush() {
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

// putLocked puts an event into the queue, and into a Hold if one matches. If there is no room for it, the watch is cut.
func (s *stream) putLocked(frame []byte) {
	if s.waiting += len(frame); s.waiting > s.injector.buffer {
		s.abortLocked()
		return
	}
	one := &queued{frame: bytes.Clone(frame)}
	s.queue = append(s.queue, one)
	rules := s.injector.inForce(HTTP)
	if !slices.ContainsFunc(rules, func(r *rule) bool { return r.ofEvents() && r.matches(s.request) }) {
		return
	}
	one.what = s.frames.describe(frame)
	one.what.Verb, one.what.Group, one.what.Resource, one.what.UserAgent = verbWatch, s.request.group, s.request.resource, s.request.agent
	for _, r := range rules {
		if !r.holdsEvents() || !r.matches(s.request) || !r.meansEvent(&one.what) || !r.hit() {
			continue
		}
		one.hold = r.hold
		one.item = &item{Held: one.what, size: len(frame), free: func() { s.let(one) }}
		if ok, full := r.hold.keep(one.item); full {
			one.hold = nil
			s.abortLocked()
		} else if !ok {
			one.free = true
		}
		return
	}
}

// ofEvents says whether the rule looks at single events.
func (r *rule) ofEvents() bool {
	n, isCut := r.action.(cut)
	return r.holdsEvents() || isCut && n > 0
}

func (r *rule) holdsEvents() bool { return r.hold != nil && !r.hold.answers }

// meansEvent compares an event.
func (r *Rule) meansEvent(e *Held) bool {
	switch {
	case r.Namespace != "" && r.Namespace != e.Namespace, r.Name != "" && r.Name != e.Name:
		return false
	case r.Type == "" && e.Type == typeBookmark, r.Type != "" && r.Type != typeAll && r.Type != e.Type:
		return false
	}
	return r.asks(func() Held { return *e })
}

// let lets a held event go, and those behind it that no one holds. It does not wait for the client.
func (s *stream) let(one *queued) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.free = true
	if s.over || s.busy || len(s.queue) == 0 || s.queue[0] != one {
		return // who is busy goes on; those before it go first
	}
	s.passSoonLocked()
}

// passSoonLocked lets a goroutine pass on what may pass, unless somebody does.
func (s *stream) passSoonLocked() {
	if s.busy {
		return
	}
	s.busy = true
	s.release.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.passLocked(false)
	})
}

// pumpLocked passes on what may pass, unless somebody does.
func (s *stream) pumpLocked() error {
	if s.busy || s.over {
		return nil
	}
	s.busy = true
	return s.passLocked(false)
}

// passLocked writes what may pass, and flushes it. The caller has set busy. It lets go of mu while it writes.
func (s *stream) passLocked(flush bool) (err error) {
	for !s.over && err == nil {
		switch first := s.firstLocked(); {
		case s.last != nil:
			s.mu.Unlock()
			if _, err = s.w.Write(s.last); err == nil {
				s.flush()
			}
			s.mu.Lock()
			s.overLocked(false)
		case first != nil:
			s.queue = s.queue[1:]
			s.waiting -= len(first.frame)
			s.mu.Unlock()
			_, err = s.w.Write(first.frame)
			s.mu.Lock()
			flush = true
			if err == nil {
				s.countLocked(&first.what)
			}
		case flush: // and look again: what was let go meanwhile counts on it
			flush = false
			s.mu.Unlock()
			s.flush()
			s.mu.Lock()
		default:
			s.busy = false
			s.idle.Broadcast()
			return nil
		}
	}
	s.busy = false
	s.idle.Broadcast()
	return err
}

// firstLocked returns the next event that may pass, or nil.
func (s *stream) firstLocked() *queued {
	if len(s.queue) == 0 || s.queue[0].hold != nil && !s.queue[0].free {
		return nil
	}
	return s.queue[0]
}

// countLocked counts an event that has passed for those rules that cut the watch behind it. The caller is busy.
func (s *stream) countLocked(what *Held) {
	for _, r := range s.injector.inForce(HTTP) {
		n, ok := r.action.(cut)
		if !ok || n == 0 || what.Verb == "" || !r.matches(s.request) || !r.meansEvent(what) {
			continue
		}
		if s.passed[r]++; s.passed[r] == int(n) && r.hit() {
			s.mu.Unlock()
			s.flush()
			s.mu.Lock()
			s.overLocked(true)
			return
		}
	}
}

// abortLocked cuts the connection behind what has passed.
func (s *stream) abortLocked() {
	if s.over {
		return
	}
	if s.busy { // with a client that may not read
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(lastWords))
	}
	s.overLocked(true)
}

// failLocked ends the watch with an error event, behind what is being written.
func (s *stream) failLocked(status metav1.Status) {
	if s.over || s.last != nil {
		return
	}
	frame, err := s.frames.failure(status)
	if err != nil {
		s.abortLocked()
		return
	}
	s.last = frame
	_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(lastWords)) // for a client that does not read
	s.passSoonLocked()
}

func (s *stream) overLocked(aborted bool) {
	s.over, s.aborted = true, aborted
	s.cancel()
}
