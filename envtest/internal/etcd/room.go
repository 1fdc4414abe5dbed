// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"os"
)

const (
	// maxBatch is how many changes the backend collects before it commits by itself: more than fit into reservedBytes.
	maxBatch = 10000

	// reservedBytes are reserved at a time. It bounds what waits for a commit in memory too.
	reservedBytes = 4 << 20

	// pageBytes is a page of the database: what a small write may take.
	pageBytes = 4 << 10

	// A commit writes the last leaf again, which has up to leafKeys keys if they are large, and a few pages that lead to it.
	leafKeys      = 4
	branchesBytes = 1 << 20
)

// room is the space of the database's file that is reserved and not promised yet.
type room struct {
	file    *os.File
	left    int // bytes
	largest int // bytes of the largest write
}

// newRoom reserves nothing yet. The caller has to call close.
func newRoom(path string) (*room, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &room{file: file}, nil
}

func (r *room) close() error { return r.file.Close() }

// makeRoom promises space for a write of size bytes, or returns an error, after which nothing must be written. The caller
// holds s.write.
//
// The database writes new pages when it commits, and never into pages in use. They are taken from the free ones, or else
// from behind the end of the file: so that much is reserved there, for all writes since the last commit.
func (s *Server) makeRoom(size int) error {
	if err := s.failure.get(); err != nil {
		return err
	}
	need := size + size/4 + pageBytes
	if s.room.left < need {
		s.backend.ForceCommit()
		if err := s.failure.get(); err != nil {
			return err
		}
		if err := s.room.reserve(need); err != nil {
			return fmt.Errorf("etcd has no room for a write of %d bytes in %s: %w: free some, or choose another folder",
				size, s.folder.path, err)
		}
	}
	s.room.left -= need
	s.room.largest = max(s.room.largest, size)
	return nil
}

// reserve reserves space behind the end of the file, for need bytes and what a commit takes besides. All writes before are
// committed.
func (r *room) reserve(need int) error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	r.left = need + reservedBytes
	spare := branchesBytes + leafKeys*r.largest
	err = allocate(r.file, info.Size(), int64(r.left+spare))
	if err != nil { // as much as is needed now
		r.left = need
		err = allocate(r.file, info.Size(), int64(r.left+spare))
	}
	if err != nil {
		r.left = 0
	}
	return err
}
