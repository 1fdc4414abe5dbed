// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"sync"

	"github.com/tarn-dev/tarn/internal/flat"
)

// What stays of a store for reads without a copy. A kind that is read so as a whole is
// better kept decoded.
const (
	sharedMost  = 128     // objects: more than a reconciliation looks at
	sharedBytes = 4 << 20 // of memory: as many Pods take half of that
)

// shared holds the objects that reads without a copy made of flat ones lately, so that
// such reads share them. All are let go when there are too many: none of them must stay
// for as long as the object that it was made of. They are found by the identity of that:
// to compare its bytes would take longer than to make it anew.
type shared struct {
	mu    sync.Mutex // guards all fields
	dict  *flat.Dictionary
	made  map[flat.Identity]any // of objects of dict alone
	bytes int                   // that these take, with their strings
}

// begin lets go of all, and takes in objects of dict from now on. What was made of an
// object of an old dictionary would be asked for by readers of old states alone.
func (s *shared) begin(dict *flat.Dictionary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dict = dict
	s.letGoLocked()
}

func (s *shared) letGoLocked() { s.made, s.bytes = nil, 0 }

// find returns what was made of o.
func (s *shared) find(o flat.Object) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.made[o.Identity()]
	return made, ok
}

// keep returns what is to be shared of o: made, unless another goroutine was quicker.
func (s *shared) keep(o flat.Object, made any) any {
	bytes := MemoryOf(made)
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.made[o.Identity()]; ok {
		return other
	}
	if bytes > sharedBytes || o.Dictionary() != s.dict {
		return made
	}
	if len(s.made) == sharedMost || s.bytes+bytes > sharedBytes {
		s.letGoLocked()
	}
	if s.made == nil {
		s.made = map[flat.Identity]any{}
	}
	s.made[o.Identity()] = made
	s.bytes += bytes
	return made
}
