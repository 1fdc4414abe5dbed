// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"sync"

	"github.com/tarn-dev/tarn/pkg/flat"
)

// sharedMost is how many decoded objects of a store stay for reads without a copy: more
// than a reconciliation looks at, and little memory. A kind that is read so as a whole
// is better kept decoded.
const sharedMost = 128

// shared holds the objects that reads without a copy made of flat ones lately, so that
// such reads share them. All are let go when there are too many: none of them must stay
// for as long as the object that it was made of.
type shared struct {
	mu   sync.Mutex // guards made
	made map[flat.Object]any
}

// find returns what was made of o.
func (s *shared) find(o flat.Object) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.made[o]
	return made, ok
}

// keep returns what is to be shared of o: made, unless another goroutine was quicker.
func (s *shared) keep(o flat.Object, made any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.made[o]; ok {
		return other
	}
	if s.made == nil || len(s.made) == sharedMost {
		s.made = map[flat.Object]any{}
	}
	s.made[o] = made
	return made
}
