// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"testing"

	. "github.com/onsi/gomega"
)

// A handler that is at the end of the state before a list, when the list comes, is expected to replay
// the list: the others must not make its objects for themselves.
func TestAHandlerIsExpectedUntilItHasReplayedTheNewestList(t *testing.T) {
	g := NewWithT(t)
	s := newSharedReplay(nil)
	w, other := s.join(), s.join()
	s.endAt(other, 0) // the state before the first list, at once
	g.Expect(other.underway).To(BeFalse())
	s.expect(10)
	s.endAt(w, 0) // the same, but the list was quicker
	g.Expect(w.underway).To(BeTrue())
	g.Expect(s.active).To(Equal(2))
	s.endAt(w, 10)
	s.endAt(other, 12) // an event has come meanwhile
	g.Expect(s.active).To(BeZero())
}
