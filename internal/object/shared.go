// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"sync"

	"github.com/tarn-dev/tarn/internal/flat"
)

// The bounds of the objects that a store keeps for reads without a copy. If a whole kind is read in
// this way, it is better to keep the kind decoded.
const (
	sharedMost  = 128     // objects: more than a reconciliation looks at
	sharedBytes = 4 << 20 // of memory: as many Pods take half of that
)

// shared holds the objects that were decoded for recent reads without a copy, so that later such
// reads return the same objects. When there are too many, all of them are dropped, so none of them
// lives as long as the flat object. The key is the identity of the flat object, because a
// comparison of its bytes would take longer than decoding it again.
type shared struct {
	mu    sync.Mutex // guards all fields
	dict  *flat.Dictionary
	made  map[flat.Identity]any // only from flat objects of dict
	bytes int                   // of memory that these objects take, with their strings
}

// begin drops all objects, and accepts objects of dict from now on. Objects of an older dictionary
// are asked for only by readers of old states.
func (s *shared) begin(dict *flat.Dictionary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dict = dict
	s.letGoLocked()
}

func (s *shared) letGoLocked() { s.made, s.bytes = nil, 0 }

// find returns the object that was decoded from o and kept.
func (s *shared) find(o flat.Object) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.made[o.Identity()]
	return made, ok
}

// keep returns the object that reads of o share: made, or the one that another goroutine has kept
// earlier.
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
