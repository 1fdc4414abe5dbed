// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/ownwrites"
)

// A list of all objects of a large cluster takes longer than many a reader waits. Those who have no deadline
// get it, and those who have one are told why they do not; the list goes on for those who come back.
func TestAListTakesAsLongAsItTakes(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("ns/a", 5, "1")
		f.serverAt(50)
		f.slow = time.Minute
		f.overlay.Doubt("")
		var readers sync.WaitGroup
		readers.Go(func() { f.Expect(f.keys("")).To(BeEmpty()) })
		for range 5 {
			ctx, cancel := context.WithTimeout(f.ctx(), 5*time.Second)
			_, _, err := f.overlay.Read(ctx, "", "")
			cancel()
			why := (*ownwrites.UnansweredError)(nil)
			f.Expect(errors.As(err, &why)).To(BeTrue(), "%v", err)
			f.Expect(err).To(MatchError(context.DeadlineExceeded))
		}
		readers.Wait()
		f.Expect(f.keys("")).To(BeEmpty())
		lists, asked := f.requests()
		f.Expect([]int{lists, asked}).To(Equal([]int{1, 0}))
	})
}

// Readers who try again at once do not ask a server that does not answer at once.
func TestAServerThatDoesNotAnswerIsAskedAfterAPause(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.slow, f.fails = time.Nanosecond, errors.New("overloaded")
		until := time.Now().Add(time.Minute)
		var readers sync.WaitGroup
		for n := range 20 {
			key := fmt.Sprintf("ns%02d/a", n)
			f.overlay.Note(entry{Key: key, Outcome: ownwrites.Unknown})
			readers.Go(func() {
				for time.Now().Before(until) {
					ctx, cancel := context.WithDeadline(f.ctx(), until)
					_, _, err := f.overlay.Read(ctx, key[:5], key)
					cancel()
					f.Expect(err).To(MatchError(ContainSubstring("overloaded")))
				}
			})
		}
		readers.Wait()
		lists, asked := f.requests()
		f.Expect(asked).To(And(BeNumerically(">", 10), BeNumerically("<", 60)), "of 20 readers in a minute")
		f.Expect(lists).To(BeZero())

		f.mu.Lock()
		f.fails = nil
		f.at = 50
		f.mu.Unlock()
		for n := range 20 {
			f.shows(fmt.Sprintf("ns%02d/a", n), "", 0)
		}
		_, now := f.requests()
		f.Expect(now-asked).To(Equal(20), "each once")
	})
}

func TestAQuestionEndsWithTheOverlay(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.slow = time.Hour
		f.overlay.Doubt("")
		time.AfterFunc(time.Minute, f.overlay.Close)
		began := time.Now()
		_, _, err := f.overlay.Read(f.ctx(), "", "")
		f.Expect(err).To(MatchError(context.Canceled))
		f.Expect(time.Since(began)).To(Equal(time.Minute))
	})
}
