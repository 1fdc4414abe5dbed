// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/pending"
)

// TestAReadPausesBetweenQuestions: the server answers with less than what a response has told.
func TestAReadPausesBetweenQuestions(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{Revision: 15}, nil }
		f.writes.Note(entry{Key: "a/1", Outcome: pending.Ambiguous, Revision: 20})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := f.writes.Read(ctx, pending.Target{Key: "a/1"})
		f.Expect(err).To(BeAssignableToTypeOf(&pending.UnansweredError{}))
		f.Expect(f.asked.Load()).To(BeNumerically("<=", 100))
	})
}

// TestManyNamesOfAPrefixAreListed: reads of one name after the other ask eight times, and then once for all.
func TestManyNamesOfAPrefixAreListed(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{Revision: 15}, nil }
		f.writes.NotePrefix("a/", 0)
		for n := range 100 {
			_, _, err := f.get(fmt.Sprint("a/", n))
			f.Expect(err).NotTo(HaveOccurred())
		}
		f.Expect(f.asked.Load()).To(BeEquivalentTo(9))
	})
}

// TestAListDoesNotLackWhatTheCacheCannotHold: a list of the server has told of the object, then the response of its write
// comes, and another write to it, whose answer is lost, while a read asks about another key.
func TestAListDoesNotLackWhatTheCacheCannotHold(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		lost := errors.New("does not fit")
		f.answer = func(of pending.Target) (pending.Answer[thing], error) {
			a := pending.Answer[thing]{Revision: 91}
			if of.Has("b/0") {
				a.Lost = []pending.Lost{{Key: "b/0", UID: "b/0", Err: lost}}
			} else {
				time.Sleep(20 * time.Millisecond)
			}
			return a, nil
		}
		all := pending.Target{All: true}
		f.writes.NotePrefix("", 0)
		_, err := f.writes.Read(context.Background(), all)
		f.Expect(err).NotTo(HaveOccurred())
		f.writes.Note(entry{Key: "b/0", Revision: 91, UID: "b/0", Bytes: 1, Make: func() (pending.Made[thing], error) { return pending.Made[thing]{Lost: lost}, nil }})
		f.writes.Note(entry{Key: "a/0", Outcome: pending.Ambiguous})
		time.AfterFunc(10*time.Millisecond, func() { f.writes.Note(entry{Key: "b/0", Outcome: pending.Ambiguous}) })
		view, err := f.writes.Read(context.Background(), all)
		f.Expect(err).NotTo(HaveOccurred())
		_, there, err := view.Find("b/0")
		f.Expect(there).To(BeFalse())
		f.Expect(err).To(MatchError(lost))
	})
}
