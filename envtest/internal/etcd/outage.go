// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// outage says whether the server answers. It is safe for concurrent use.
type outage struct {
	mu sync.Mutex
	up chan struct{} // guarded by mu; closed while the server answers, and replaced when it does so no more
}

func newOutage() *outage {
	o := &outage{up: make(chan struct{})}
	close(o.up)
	return o
}

// errDown is what a client gets that reaches no member.
var errDown = status.Error(codes.Unavailable, "connection error: desc = \"transport: etcd was stopped by the test: start it again\"")

// answers returns a channel that is closed when the server answers.
func (o *outage) answers() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.up
}

// err returns what a call gets now: nil if the server answers.
func (o *outage) err() error {
	select {
	case <-o.answers():
		return nil
	default:
		return errDown
	}
}

// set changes whether the server answers. It returns false if that is so already.
func (o *outage) set(answers bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.up:
		if answers {
			return false
		}
		o.up = make(chan struct{})
	default:
		if !answers {
			return false
		}
		close(o.up)
	}
	return true
}

// Pause cuts the server off, as a stopped one is, until Resume: reads, writes and leases fail with codes.Unavailable; watches stay,
// get nothing, and go on later where they were; values and their history stay; no lease expires. Writes that have begun end before
// it returns. It does nothing if the server is cut off.
func (s *Server) Pause() {
	s.whole.Lock() // after Exchange and all other writes
	defer s.whole.Unlock()
	s.write.Lock()
	defer s.write.Unlock()
	if s.outage.set(false) {
		s.lessor.Demote()
	}
}

// Resume lets the server answer again. Leases live anew for the whole of their TTL, as with a new leader. It does nothing if the
// server is not cut off.
func (s *Server) Resume() {
	s.write.Lock()
	defer s.write.Unlock()
	select {
	case <-s.outage.answers():
		return
	default:
	}
	s.lessor.Promote(0)
	s.outage.set(true)
}

// Available returns why no client reaches the server, or nil.
func (s *Server) Available() error {
	if err := s.outage.err(); err != nil {
		return err
	}
	return s.failure.get()
}

// CompactTo forgets what was replaced or deleted before a revision, and returns when that is done. Revision zero means the newest.
// The errors are etcd's: the revision was compacted already, or is yet to come; or that the context has ended, and the
// compaction goes on.
func (s *Server) CompactTo(ctx context.Context, revision int64) (err error) {
	defer s.failure.rescue(&err)
	if revision == 0 {
		revision = s.store.Rev()
	}
	done, err := s.beginCompaction(revision)
	if err != nil {
		return wireError(err)
	}
	select {
	case <-done:
		return nil
	case <-s.quit:
		return errDown
	case <-ctx.Done():
		return ctx.Err()
	}
}
