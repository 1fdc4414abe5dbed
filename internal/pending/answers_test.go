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

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// TestAReadEndsWhereListsHaveNoRevision: whole objects are written for a second, and each takes a while to make.
func TestAReadEndsWhereListsHaveNoRevision(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) {
			return pending.Answer[thing]{}, pending.ErrNoRevision
		}
		slow := func(n, at uint64) entry {
			e := made(fmt.Sprint("a/", n), at)
			whole := e.Make
			e.Make = func() (pending.Made[thing], error) { time.Sleep(20 * time.Millisecond); return whole() }
			return e
		}
		f.writes.Note(slow(0, 20))
		writing := make(chan struct{})
		go func() { // for a second, then nobody writes
			defer close(writing)
			for n := uint64(1); n < 100; n++ {
				time.Sleep(10 * time.Millisecond)
				f.writes.Note(slow(n%3, 20+n))
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		began := time.Now()
		_, err := f.writes.Read(ctx, pending.Target{Key: "a/", All: true})
		took := time.Since(began)
		<-writing
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(took).To(BeNumerically("<", 5*time.Second))
		f.Expect(f.asked.Load()).To(BeNumerically("<=", 2))
	})
}

// TestAnAnswerDoesNotGoBackBehindAResponse: the watch could not hold the version of a response, as when the transform failed at that
// moment, and the state is as new as the list of the server.
func TestAnAnswerDoesNotGoBackBehindAResponse(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) {
			return pending.Answer[thing]{Revision: 20, Items: []item{{Key: "a/1", Revision: 12, Value: thing{uid: "a/1"}}}}, nil
		}
		f.engine.Apply(watchcache.Change[thing, struct{}]{Item: item{Key: "a/1", Revision: 11, Value: thing{uid: "a/1"}}})
		f.writes.Note(made("a/1", 12))
		f.engine.Bookmark(20) // and no event for 12
		seen := func() uint64 {
			view, err := f.writes.Read(context.Background(), pending.Target{Key: "a/", All: true})
			f.Expect(err).NotTo(HaveOccurred())
			found, _, _ := view.Find("a/1")
			return found.Revision
		}
		f.Expect(seen()).To(BeEquivalentTo(12))
		f.writes.NotePrefix("a/", 0)
		f.Expect(seen()).To(BeEquivalentTo(12))
		f.Expect(seen()).To(BeEquivalentTo(12))
	})
}

// TestAListDoesNotLackAResponse: the response could be held, and the transform failed for the list of the server.
func TestAListDoesNotLackAResponse(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) {
			return pending.Answer[thing]{Revision: 12, Lost: []pending.Lost{{Key: "a/1", UID: "a/1", Err: errors.New("does not fit")}}}, nil
		}
		f.writes.Note(made("a/1", 12))
		_, there, err := f.get("a/1")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(there).To(BeTrue())
		f.writes.NotePrefix("a/", 0)
		for range 2 {
			view, err := f.writes.Read(context.Background(), pending.Target{Key: "a/", All: true})
			f.Expect(err).NotTo(HaveOccurred())
			_, there, lost := view.Find("a/1")
			f.Expect(there || lost != nil).To(BeTrue(), "the list lacks it silently")
		}
	})
}

// TestAStaleListDoesNotTakeAResponseBack: the server is behind what a response has told.
func TestAStaleListDoesNotTakeAResponseBack(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{Revision: 15}, nil }
		f.writes.Note(made("a/1", 20))
		there := func() bool {
			view, err := f.writes.Read(context.Background(), pending.Target{Key: "a/", All: true})
			f.Expect(err).NotTo(HaveOccurred())
			_, there, _ := view.Find("a/1")
			return there
		}
		f.Expect(there()).To(BeTrue())
		f.writes.NotePrefix("a/", 0)
		f.Expect([]bool{there(), there()}).To(Equal([]bool{true, true}))
	})
}

// TestAReadThatIsSettledAsksNoMore: the watch brings all while the first of eight keys is asked about.
func TestAReadThatIsSettledAsksNoMore(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) {
			time.Sleep(10 * time.Second)
			return pending.Answer[thing]{Revision: 20}, nil
		}
		for n := range 8 {
			f.writes.Note(entry{Key: fmt.Sprint("a/", n), Outcome: note.Ambiguous, Revision: 20})
		}
		time.AfterFunc(time.Second, func() { f.engine.Bookmark(20) })
		began := time.Now()
		_, err := f.writes.Read(context.Background(), pending.Target{Key: "a/", All: true})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.asked.Load()).To(BeEquivalentTo(1))
		f.Expect(time.Since(began)).To(BeNumerically("<", 1200*time.Millisecond))
	})
}

// TestTheRevisionOfAnAnswerIsNotWaitedFor: there may be no event of the kind at it, also if a response has told an older one since.
func TestTheRevisionOfAnAnswerIsNotWaitedFor(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{Revision: 50}, nil }
		f.writes.Note(entry{Key: "a/1", Outcome: note.Ambiguous})
		f.writes.Note(entry{Key: "a/2", Outcome: note.Ambiguous})
		_, _, err := f.get("a/1") // which bounds a/2 by 50 too
		f.Expect(err).NotTo(HaveOccurred())
		f.writes.Note(entry{Key: "a/2", Outcome: note.Ambiguous, Revision: 40})
		f.engine.Bookmark(45) // the write of 40 is there; nothing may ever come at 50
		began := time.Now()
		_, _, err = f.get("a/2")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(time.Since(began)).To(BeNumerically("<", 100*time.Millisecond))
	})
}

// TestARestoreIsSeenThoughNobodyTells: the revisions of pending writes are of the time before, so the server is asked.
func TestARestoreIsSeenThoughNobodyTells(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) {
			return pending.Answer[thing]{Revision: 7, Items: []item{{Key: "a/1", Revision: 6, Value: thing{uid: "new"}}}}, nil
		}
		f.writes.Note(made("a/1", 12))
		f.engine.Restore(nil, 5)
		found, _, err := f.get("a/1")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(found.uid).To(BeEquivalentTo("new"))
		f.Expect(f.asked.Load()).To(BeEquivalentTo(1))
	})
}
