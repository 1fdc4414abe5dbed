// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/ownwrites"
)

// A server whose lists have the version "0" does not say how far it is.
func TestAServerThatDoesNotSayHowFarItIsIsNotWaitedFor(t *testing.T) {
	for name, fails := range map[string]error{"zero": nil, "no number": fmt.Errorf("%w: %q", ownwrites.ErrNoRevision, "abc")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newUnlisted(t, 0)
				defer f.overlay.Close()
				f.fails = fails
				f.overlay.Doubt("")
				f.engine.Replace([]item{{Key: "a", Revision: 3, Value: thing{uid: "1"}}}, 0)
				f.shows("a", "1", 3)
				f.Expect(f.overlay.Load()).To(BeNil())
			})
		})
	}
}

// What the answer would be compared with is no number: the watch is believed.
func TestAnAnswerWithoutARevisionEndsTheWait(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.fails = fmt.Errorf("%w: %q", ownwrites.ErrNoRevision, "abc")
		f.watch("a/00", 5, "1")
		f.overlay.Note(entry{Key: "a/00", Outcome: ownwrites.Unknown})
		f.shows("a/00", "1", 5)
		f.Expect(f.overlay.Load()).To(BeNil())

		for n := range 20 {
			f.overlay.Note(entry{Key: fmt.Sprintf("a/%02d", n), Outcome: ownwrites.Unknown})
		}
		set, _, err := f.overlay.Read(f.ctx(), "a/", "")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(set).To(BeNil())
		lists, asked := f.requests()
		f.Expect([]int{lists, asked}).To(Equal([]int{1, 1}))
	})
}

func TestAReadThatHasEndedAsksNothing(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serverAt(20)
		f.overlay.Listed(15)
		ctx, cancel := context.WithTimeout(f.ctx(), 100*time.Millisecond)
		defer cancel()
		_, _, err := f.overlay.Read(ctx, "a", "a")
		f.Expect(err).To(MatchError(context.DeadlineExceeded))
		time.Sleep(5 * time.Second)
		_, asked := f.requests()
		f.Expect(asked).To(BeZero())
	})
}
