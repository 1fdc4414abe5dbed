// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/pkg/v3/traceutil"
)

const (
	// historyAge is how long revisions are kept that were replaced or deleted: the interval of kube-apiserver's compaction.
	// A list that is continued, or one of an exact revision, can be that old.
	historyAge = 5 * time.Minute

	// historyBytes is how much may have been written since the oldest revision that is kept. A real etcd refuses to write
	// at 2 GiB.
	historyBytes = 512 << 20

	// samples are taken so many in the history, by its age and by its bytes.
	samples   = 16
	sampleAge = historyAge / samples

	// revisionBytes is the size of a revision beside its value: in the index and in the database.
	revisionBytes = 512

	// compactionBytes bounds the space that is reserved for a compaction.
	compactionBytes = 16 << 20
)

// history says when the store has grown.
type history struct {
	limit   int64         // bytes
	written atomic.Int64  // bytes since the server was started; changed under Server.write
	grown   chan struct{} // receives when it is time for a sample
}

func newHistory(limit int64) *history { return &history{limit: limit, grown: make(chan struct{}, 1)} }

// wrote counts a write of size bytes. The caller holds Server.write.
func (h *history) wrote(size int) {
	before, step := h.written.Load(), h.limit/samples
	if after := h.written.Add(int64(size) + revisionBytes); before/step == after/step {
		return
	}
	select {
	case h.grown <- struct{}{}:
	default: // it was told, and will look
	}
}

// sample is the state of the store at one time.
type sample struct {
	revision int64
	at       time.Time
	written  int64
}

// tooOld returns the newest of the samples, which are in the order of time, that is older than the history has to be at
// now, and those after it. It returns zero if there is none.
func (h *history) tooOld(taken []sample, now sample) (int64, []sample) {
	for i := len(taken) - 1; i >= 0; i-- {
		s := taken[i]
		if now.at.Sub(s.at) >= historyAge || now.written-s.written >= h.limit {
			return s.revision, taken[i+1:]
		}
	}
	return 0, taken
}

// compactOld compacts what is older than the history, until the server stops.
func (s *Server) compactOld() {
	ticker := time.NewTicker(sampleAge)
	defer ticker.Stop()
	var taken []sample
	for {
		now := sample{written: s.history.written.Load(), revision: s.store.Rev(), at: time.Now()}
		var old int64
		old, taken = s.history.tooOld(append(taken, now), now)
		if old > s.store.FirstRev() {
			_ = s.compact(old) // without room for it, a later sample is compacted when there is some
		}
		select {
		case <-ticker.C:
		case <-s.history.grown:
		case <-s.quit:
			return
		}
	}
}

// compact forgets what was replaced or deleted before the revision, and returns when that is done or the server stops.
func (s *Server) compact(revision int64) (err error) {
	defer s.failure.rescue(&err)
	done, err := s.beginCompaction(revision)
	if err != nil {
		return err
	}
	select {
	case <-done:
	case <-s.quit:
	}
	return nil
}

// beginCompaction returns a channel that is closed when a compaction is done.
func (s *Server) beginCompaction(revision int64) (<-chan struct{}, error) {
	s.begin()
	defer s.done()
	if err := s.outage.err(); err != nil {
		return nil, err
	}
	// Each batch writes again what stays of the leaves that it looked at.
	if err := s.makeRoom(min(compactionBatch*s.room.largest, compactionBytes)); err != nil {
		return nil, err
	}
	return s.store.Compact(traceutil.TODO(), revision)
}
