// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// fixture is a watch that has brought nothing, and a server.
type fixture struct {
	*WithT
	engine *watchcache.Engine[thing, struct{}]
	writes *pending.Writes[thing]
	asked  atomic.Int64
	ended  atomic.Int64
	answer func(of pending.Target) (pending.Answer[thing], error)
}

func inBubble(t *testing.T, budget int64, test func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{WithT: NewWithT(t), engine: watchcache.New[thing, struct{}](watchcache.Options[thing]{})}
		f.engine.Replace(nil, 10)
		f.writes = pending.New(pending.Options[thing]{
			State: f.engine.Snapshot, Wait: f.engine.WaitUntilFreshAfter, Budget: pending.NewBudget(budget),
			Ask: func(_ context.Context, of pending.Target) (pending.Answer[thing], error) {
				f.asked.Add(1)
				time.Sleep(time.Millisecond)
				return f.answer(of)
			},
			UID:   func(t thing) types.UID { return t.uid },
			Size:  func(t thing) int { return t.size },
			Ended: func(pending.Ending) { f.ended.Add(1) },
		})
		defer time.Sleep(time.Minute) // also if the test fails: the bubble waits for goroutines
		defer f.writes.Close()
		test(f)
		f.writes.Close()
		f.Expect(f.writes.Empty()).To(BeTrue())
	})
}

func (f *fixture) get(key string) (thing, bool, error) {
	view, err := f.writes.Read(context.Background(), pending.Target{Key: key})
	if err != nil {
		return thing{}, false, err
	}
	found, there, lost := view.Find(key)
	return found.Value, there, lost
}

func made(key string, revision uint64) entry {
	return entry{Key: key, Revision: revision, UID: types.UID(key), Bytes: 100, Make: func() (pending.Made[thing], error) {
		return pending.Made[thing]{Value: thing{uid: types.UID(key), size: 100}, Held: true}, nil
	}}
}

var errDown = errors.New("down")

// TestAServerThatDoesNotAnswerIsAskedWithPauses, once for all that read, whatever they read.
func TestAServerThatDoesNotAnswerIsAskedWithPauses(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		var up atomic.Bool
		f.answer = func(pending.Target) (pending.Answer[thing], error) {
			if up.Load() {
				return pending.Answer[thing]{Revision: 20}, nil
			}
			return pending.Answer[thing]{}, errDown
		}
		f.writes.NotePrefix("a/", 0)
		var all sync.WaitGroup
		end := time.Now().Add(time.Minute)
		for n := range 20 {
			all.Go(func() {
				for time.Now().Before(end) {
					_, _, err := f.get(fmt.Sprint("a/", n))
					unanswered := (*pending.UnansweredError)(nil)
					f.Expect(errors.As(err, &unanswered)).To(BeTrue(), "%v", err)
					f.Expect(err).To(MatchError(errDown))
				}
			})
		}
		all.Wait()
		f.Expect(f.asked.Load()).To(BeNumerically("<", 60))
		up.Store(true)
		_, there, err := f.get("a/0")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(there).To(BeFalse())
	})
}

// TestAListIsReadUntilTheWatchHasReachedIt: an object that it does not have is not shown, though the watch brings it and
// its deletion later. Reads of the prefix ask once.
func TestAListIsReadUntilTheWatchHasReachedIt(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) {
			return pending.Answer[thing]{Revision: 20, Items: []item{{Key: "a/1", Revision: 15, Value: thing{uid: "1"}}}}, nil
		}
		f.writes.NotePrefix("a/", 0)
		list := func() int {
			view, err := f.writes.Read(context.Background(), pending.Target{Key: "a/", All: true})
			f.Expect(err).NotTo(HaveOccurred())
			return view.Count("a/", "")
		}
		f.Expect(list()).To(Equal(1))
		f.engine.Apply(watchcache.Change[thing, struct{}]{Item: item{Key: "a/2", Revision: 12, Value: thing{uid: "2"}}})
		f.Expect(list()).To(Equal(1))
		_, there, err := f.get("a/2")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(there).To(BeFalse())
		f.writes.Note(made("a/3", 21))
		f.Expect(list()).To(Equal(2))
		f.Expect(f.asked.Load()).To(BeEquivalentTo(1))
		f.engine.Replace([]item{{Key: "a/1", Revision: 15}, {Key: "a/3", Revision: 21}, {Key: "a/4", Revision: 22}}, 22)
		f.Expect(list()).To(Equal(3))
		time.Sleep(2 * time.Second)
		f.Expect(f.writes.Empty()).To(BeTrue())
	})
}

// TestWhatHasNoRoomIsAmbiguous, and so are all keys if there is no room for so many.
func TestWhatHasNoRoomIsAmbiguous(t *testing.T) {
	inBubble(t, -1, func(f *fixture) {
		f.answer = func(of pending.Target) (pending.Answer[thing], error) {
			return pending.Answer[thing]{Revision: 20, Items: []item{{Key: of.Key, Revision: 11, Value: thing{uid: "x"}}}}, nil
		}
		f.writes.Note(made("a/1", 11))
		f.writes.Note(made("a/2", 12))
		time.Sleep(time.Second)
		f.Expect(f.ended.Load()).To(BeEquivalentTo(1))
		_, there, err := f.get("a/2")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(there).To(BeTrue())
		f.Expect(f.asked.Load()).To(BeZero())
		_, there, err = f.get("a/1")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(there).To(BeTrue())
		f.Expect(f.asked.Load()).To(BeEquivalentTo(1))
		for n := range 60_000 {
			f.writes.Note(entry{Key: fmt.Sprint("b/", n), Outcome: note.Ambiguous})
		}
		count, bytes := f.writes.Size()
		f.Expect(count).To(BeNumerically("<", 60_000))
		f.Expect(bytes).To(BeNumerically("<", 16<<20))
		_, _, err = f.get("c/1")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.asked.Load()).To(BeEquivalentTo(2), "all keys are ambiguous")
	})
}

// TestADeletionIsNotForgottenWithoutRoom: its revision is not known, so no state says by itself that it has it.
func TestADeletionIsNotForgottenWithoutRoom(t *testing.T) {
	inBubble(t, -1, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{Revision: 20}, nil }
		f.engine.Apply(watchcache.Change[thing, struct{}]{Item: item{Key: "a/1", Revision: 11, Value: thing{uid: "a/1"}}})
		f.writes.Note(entry{Key: "a/1", Outcome: note.Gone, UID: "a/1"})
		for n := range 60_000 {
			f.writes.Note(entry{Key: fmt.Sprint("b/", n), Outcome: note.Hidden, Revision: 12})
		}
		count, _ := f.writes.Size()
		f.Expect(count).To(BeNumerically("<", 60_000))
		f.engine.Bookmark(12)
		_, there, err := f.get("a/1")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(there).To(BeFalse())
		f.Expect(f.asked.Load()).To(BeEquivalentTo(1))
	})
}

// TestADeletedObjectStaysDeleted, whatever responses and events of before come late, until the watch has reached it.
func TestADeletedObjectStaysDeleted(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		hidden := func() {
			_, there, err := f.get("a/1")
			f.ExpectWithOffset(1, err).NotTo(HaveOccurred())
			f.ExpectWithOffset(1, there).To(BeFalse())
		}
		f.engine.Apply(watchcache.Change[thing, struct{}]{Item: item{Key: "a/1", Revision: 11, Value: thing{uid: "a/1"}}})
		f.writes.Note(entry{Key: "a/1", Outcome: note.Gone, UID: "a/1"})
		hidden()
		f.writes.Note(made("a/1", 13))
		hidden()
		f.engine.Apply(watchcache.Change[thing, struct{}]{Item: item{Key: "a/1", Revision: 14, Value: thing{uid: "a/1"}}})
		hidden()
		f.engine.Apply(watchcache.Change[thing, struct{}]{Item: item{Key: "a/1", Revision: 15}, Deleted: true})
		hidden()
		time.Sleep(2 * time.Second)
		f.Expect(f.writes.Empty()).To(BeTrue())
		f.Expect(f.asked.Load()).To(BeZero())
	})
}

// TestAnAmbiguousWriteAfterADeletion is of the deleted object if it has its UID: then the object stays deleted, and nobody is
// asked. Otherwise it may have created another object, and the server is asked.
func TestAnAmbiguousWriteAfterADeletion(t *testing.T) {
	for name, c := range map[string]struct {
		write entry
		asked int64
		finds types.UID
	}{
		"of the deleted object":        {entry{Key: "a/1", Outcome: note.Ambiguous, Revision: 13, UID: "a/1"}, 0, ""},
		"of another object":            {entry{Key: "a/1", Outcome: note.Ambiguous, Revision: 13, UID: "other"}, 1, "other"},
		"without a response":           {entry{Key: "a/1", Outcome: note.Ambiguous}, 1, "other"},
		"that was before the deletion": {entry{Key: "a/1", Outcome: note.Ambiguous, Revision: 10, UID: "before"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.answer = func(of pending.Target) (pending.Answer[thing], error) {
					return pending.Answer[thing]{Revision: 20, Items: []item{{Key: of.Key, Revision: 14, Value: thing{uid: "other"}}}}, nil
				}
				f.engine.Apply(watchcache.Change[thing, struct{}]{Item: item{Key: "a/1", Revision: 11, Value: thing{uid: "a/1"}}})
				f.writes.Note(entry{Key: "a/1", Outcome: note.Gone, UID: "a/1"})
				f.writes.Note(c.write)
				found, there, err := f.get("a/1")
				f.Expect(err).NotTo(HaveOccurred())
				f.Expect(there).To(Equal(c.finds != ""))
				if there {
					f.Expect(found.uid).To(Equal(c.finds))
				}
				f.Expect(f.asked.Load()).To(Equal(c.asked))
			})
		})
	}
}
