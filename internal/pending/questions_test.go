// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/pending"
)

// TestAReadEndsHoweverMuchIsWritten: writes go on while the watch stands, and the server answers with what was true when it was asked.
func TestAReadEndsHoweverMuchIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		budget       int64
		every, takes time.Duration
		write        func(revision uint64) entry
		of           pending.Target
	}{
		"whose revisions alone are known": {
			every: 100 * time.Millisecond, of: pending.Target{Key: "a/1"},
			write: func(at uint64) entry { return entry{Key: "a/1", Outcome: note.Ambiguous, Revision: at} },
		},
		"faster than the server answers": {
			every: 20 * time.Millisecond, takes: 50 * time.Millisecond, of: pending.Target{Key: "a/", All: true},
			write: func(at uint64) entry { return entry{Key: "a/1", Outcome: note.Ambiguous, Revision: at} },
		},
		"without room": {
			budget: -1, every: 5 * time.Millisecond, takes: 20 * time.Millisecond, of: pending.Target{Key: "a/", All: true},
			write: func(at uint64) entry { return made(fmt.Sprint("a/", at%100), at) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.budget, func(f *fixture) {
				var revision atomic.Uint64
				revision.Store(10)
				f.answer = func(pending.Target) (pending.Answer[thing], error) {
					at := revision.Load()
					time.Sleep(c.takes)
					return pending.Answer[thing]{Revision: at}, nil
				}
				write := func() { f.writes.Note(c.write(revision.Add(1))) }
				for range 20 {
					write()
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for ctx.Err() == nil {
						time.Sleep(c.every)
						write()
					}
				}()
				began := time.Now()
				_, err := f.writes.Read(ctx, c.of)
				cancel()
				<-ended
				f.Expect(err).NotTo(HaveOccurred())
				f.Expect(time.Since(began)).To(BeNumerically("<", 2*time.Second))
				f.Expect(f.asked.Load()).To(BeNumerically("<=", 2))
			})
		})
	}
}

// TestAnAnswerBelowTheMinimumRevisionIsBelieved: the server is not asked over and over.
func TestAnAnswerBelowTheMinimumRevisionIsBelieved(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{Revision: 15}, nil }
		f.writes.Note(entry{Key: "a/1", Outcome: note.Ambiguous, Revision: 20})
		_, _, err := f.get("a/1")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.asked.Load()).To(BeEquivalentTo(1))
	})
}

// TestManyNamesOfAPrefixAreAskedForOnce: the first read of a name asks for the prefix.
func TestManyNamesOfAPrefixAreAskedForOnce(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{Revision: 15}, nil }
		f.writes.NotePrefix("a/", 0)
		for n := range 100 {
			_, _, err := f.get(fmt.Sprint("a/", n))
			f.Expect(err).NotTo(HaveOccurred())
		}
		f.Expect(f.asked.Load()).To(BeEquivalentTo(1))
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
		f.writes.Note(entry{Key: "a/0", Outcome: note.Ambiguous})
		time.AfterFunc(10*time.Millisecond, func() { f.writes.Note(entry{Key: "b/0", Outcome: note.Ambiguous}) })
		view, err := f.writes.Read(context.Background(), all)
		f.Expect(err).NotTo(HaveOccurred())
		_, there, err := view.Find("b/0")
		f.Expect(there).To(BeFalse())
		f.Expect(err).To(MatchError(lost))
	})
}
