// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/ownwrites"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// thing is an object: its UID, and its size.
type thing struct {
	uid  types.UID
	size int
}

type (
	entry = ownwrites.Entry[thing]
	item  = watchcache.Item[thing]
)

// fixture is an engine and what lies over it.
type fixture struct {
	*WithT
	engine  *watchcache.Engine[thing, struct{}]
	overlay *ownwrites.Overlay[thing]
	budget  *ownwrites.Budget

	mu     sync.Mutex // guards what follows
	server map[string]item
	at     uint64 // the revision of the server
	asked  int
	listed int
	fails  error
	slow   time.Duration // how long an answer takes, a second if it is zero
	ended  []ownwrites.Ending
}

// wait takes the time of an answer, in a bubble.
func (f *fixture) wait(ctx context.Context) error {
	f.mu.Lock()
	slow := cmp.Or(f.slow, time.Second)
	f.mu.Unlock()
	select {
	case <-time.After(slow):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func newFixture(t *testing.T, budget int64) *fixture {
	f := newUnlisted(t, budget)
	f.engine.Replace(nil, 1)
	return f
}

// newUnlisted is newFixture before the first list.
func newUnlisted(t *testing.T, budget int64) *fixture {
	f := &fixture{
		WithT: NewWithT(t), server: map[string]item{}, budget: ownwrites.NewBudget(budget),
		engine: watchcache.New[thing, struct{}](watchcache.Options[thing]{}),
	}
	f.overlay = ownwrites.New(ownwrites.Options[thing]{
		State: f.engine.Snapshot, Wait: f.engine.WaitUntilFreshAfter, Ask: f.ask, List: f.list, Budget: f.budget,
		UID:  func(t thing) types.UID { return t.uid },
		Size: func(t thing) int { return t.size },
		Ended: func(e ownwrites.Ending) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.ended = append(f.ended, e)
		},
	})
	return f
}

func (f *fixture) ask(ctx context.Context, key string) (ownwrites.Answer[thing], error) {
	if err := f.wait(ctx); err != nil {
		return ownwrites.Answer[thing]{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	found, ok := f.server[key]
	return ownwrites.Answer[thing]{Found: ok, Item: found, Revision: f.at}, f.fails
}

func (f *fixture) list(ctx context.Context, prefix string, each func(ownwrites.Answer[thing])) (uint64, error) {
	if err := f.wait(ctx); err != nil {
		return 0, err
	}
	f.mu.Lock()
	found, at, err := maps.Clone(f.server), f.at, f.fails
	f.listed++
	f.mu.Unlock()
	for key, item := range found {
		if strings.HasPrefix(key, prefix) {
			each(ownwrites.Answer[thing]{Found: true, Item: item, Revision: at})
		}
	}
	return at, err
}

// watch brings an object, or its deletion if the UID is empty.
func (f *fixture) watch(key string, revision uint64, uid types.UID) {
	f.engine.Apply(watchcache.Change[thing, struct{}]{
		Item: item{Key: key, Revision: revision, Value: thing{uid: uid}}, Deleted: uid == "",
	})
}

// read returns the object that a read shows, as its UID and its revision.
func (f *fixture) read(key string) (types.UID, uint64) {
	prefix := key[:strings.Index(key, "/")+1]
	set, state, err := f.overlay.Read(f.ctx(), prefix, key)
	f.Expect(err).NotTo(HaveOccurred())
	get := state.Get
	if set != nil {
		get = func(key string) (item, bool) { return set.Get(state, key) }
	}
	found, _ := get(key)
	return found.Value.uid, found.Revision
}

// serverAt sets the revision of the server.
func (f *fixture) serverAt(revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = revision
}

// requests returns how many lists and questions for one key there were.
func (f *fixture) requests() (lists, asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listed, f.asked
}

func (f *fixture) ctx() context.Context { return context.Background() }

func (f *fixture) shows(key string, uid types.UID, revision uint64) {
	gotUID, got := f.read(key)
	f.ExpectWithOffset(1, gotUID).To(Equal(uid), key)
	f.ExpectWithOffset(1, got).To(Equal(revision))
}

func (f *fixture) shown(key string, revision uint64, uid types.UID) entry {
	return entry{Key: key, Outcome: ownwrites.Shown, Revision: revision, UID: uid, Value: thing{uid: uid, size: 100}}
}

func (f *fixture) gone(key string, revision uint64, uid types.UID) entry {
	return entry{Key: key, Outcome: ownwrites.Gone, Revision: revision, UID: uid}
}

func (f *fixture) deletedWithOthers(key string, revision uint64, uid types.UID) entry {
	return entry{Key: key, Outcome: ownwrites.Gone, Revision: revision, UID: uid, Collection: true}
}

// inBubble runs a test whose time is not real, until all entries have ended.
func inBubble(t *testing.T, budget int64, test func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, budget)
		test(f)
		f.overlay.Close()
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

func TestAWriteIsShownUntilTheWatchHasPassedIt(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(f.shown("a", 5, "1"))
		f.shows("a", "1", 5)
		f.watch("a", 3, "1")
		f.shows("a", "1", 5)
		f.watch("b", 4, "2")
		f.shows("a", "1", 5)
		f.watch("a", 5, "1")
		f.watch("a", 6, "1")
		f.shows("a", "1", 6)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// A program that writes all the time, with a watch that is quick, has few entries at any time.
func TestWhatTheWatchHasPassedDoesNotPileUp(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		for n := range 1000 {
			key, revision := fmt.Sprintf("ns/%04d", n), uint64(10+n)
			f.overlay.Note(f.shown(key, revision, "1"))
			entries, _ := f.overlay.Size()
			f.Expect(entries).To(BeNumerically("<=", 5))
			if n > 2 {
				f.watch(fmt.Sprintf("ns/%04d", n-2), revision-2, "1")
			}
		}
		f.shows("ns/0999", "1", 1009)
	})
}

func TestResponsesComeInAnyOrder(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(f.shown("a", 7, "1"))
		f.overlay.Note(f.shown("a", 6, "1"))
		f.shows("a", "1", 7)
		f.overlay.Note(f.gone("a", 5, "1"))
		f.shows("a", "", 0)
		f.overlay.Note(f.shown("a", 8, "1")) // of before the deletion
		f.shows("a", "", 0)
		f.overlay.Note(f.shown("a", 9, "2"))
		f.shows("a", "2", 9)
	})
}

func TestADeletionHidesItsObjectAloneUntilTheWatchAgrees(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(f.gone("a", 0, "1"))
		f.shows("a", "", 0)
		f.watch("a", 6, "1") // a change before the deletion
		f.shows("a", "", 0)
		time.Sleep(time.Minute)
		f.shows("a", "", 0)
		f.watch("a", 7, "")
		f.watch("a", 8, "2")
		f.shows("a", "2", 8)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())

		// A deletion of an object of which the watch has shown nothing yet.
		f.overlay.Note(f.gone("b", 0, "3"))
		f.watch("b", 9, "3")
		f.shows("b", "", 0)
		f.watch("b", 10, "")
		f.watch("b", 11, "4")
		f.shows("b", "4", 11)
	})
}

func TestWhatWasCreatedAndDeletedIsNotShownByALateWatch(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 2, "0")
		f.overlay.Note(f.shown("a", 5, "1"))
		f.overlay.Note(f.gone("a", 0, "1"))
		f.shows("a", "", 0) // not the object of before either
		f.watch("a", 4, "")
		f.watch("a", 5, "1")
		f.shows("a", "", 0)
		f.watch("a", 6, "")
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

func TestAChangeOfUnknownContentWaitsForTheWatchAndThenAsksOnce(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Changed, Revision: 7, UID: "1"})
		go func() {
			time.Sleep(50 * time.Millisecond)
			f.watch("a", 7, "1")
		}()
		f.shows("a", "1", 7)
		f.Expect(f.asked).To(BeZero())

		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Changed, Revision: 8, UID: "1"})
		f.server["a"], f.at = item{Key: "a", Revision: 9, Value: thing{uid: "1"}}, 9
		var readers sync.WaitGroup
		for range 10 {
			readers.Go(func() { f.shows("a", "1", 9) })
		}
		readers.Wait()
		f.Expect(f.asked).To(Equal(1))
		f.shows("b", "", 0) // others do not wait
	})
}

func TestAnAmbiguousWriteIsAskedFor(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Unknown})
		f.at = 9
		f.shows("a", "", 0)
		f.Expect(f.asked).To(Equal(1))
		f.shows("a", "", 0)
		f.Expect(f.asked).To(Equal(1))

		f.fails = errors.New("no connection")
		f.overlay.Note(entry{Key: "b", Outcome: ownwrites.Unknown})
		_, _, err := f.overlay.Read(f.ctx(), "", "")
		f.Expect(err).To(MatchError(f.fails))
		f.shows("a", "", 0)
		ctx, cancel := context.WithTimeout(f.ctx(), time.Millisecond)
		defer cancel()
		_, _, err = f.overlay.Read(ctx, "", "b")
		f.Expect(err).To(MatchError(context.DeadlineExceeded))
		time.Sleep(10 * time.Minute)
		f.shows("b", "", 0)
		f.Expect(f.ended).To(HaveLen(2)) // the answer of a, too: the watch brought nothing
	})
}

func TestADeletionWithFinalizersIsSettledByTheirChange(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Leaving, Revision: 5, UID: "1"})
		go func() {
			time.Sleep(10 * time.Millisecond)
			f.watch("b", 6, "2") // something else
			time.Sleep(10 * time.Millisecond)
			f.watch("a", 7, "1") // it has a deletionTimestamp now
		}()
		f.shows("a", "1", 7)
		f.Expect(f.asked).To(BeZero())
	})
}

func TestAnEntryEndsByItsDeadline(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(f.shown("a", 5, "1"))
		time.Sleep(4 * time.Minute)
		f.shows("a", "1", 5)
		time.Sleep(2 * time.Minute)
		f.shows("a", "", 0)
		f.Expect(f.ended).To(Equal([]ownwrites.Ending{{Key: "a", Outcome: ownwrites.Shown, Revision: 5, Reached: 1}}))
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// The server answers a question with what it had when it was asked. What is written meanwhile is newer.
func TestAWriteBesideAQuestionIsAskedForAgain(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Unknown})
		f.server["a"], f.at = item{Key: "a", Revision: 40, Value: thing{uid: "1"}}, 40
		go func() {
			time.Sleep(500 * time.Millisecond) // the question is under way
			f.overlay.Note(f.shown("a", 50, "1"))
			time.Sleep(time.Second)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.server["a"], f.at = item{Key: "a", Revision: 50, Value: thing{uid: "1"}}, 50
		}()
		f.shows("a", "1", 50)
		f.Expect(f.asked).To(Equal(2))
	})
}

// DeleteAllOf answers with the objects as they were, which may be as they were written a moment ago.
func TestWhatWasWrittenIsAskedToLeaveAtTheSameVersion(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(f.shown("a", 10, "1"))
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Leaving, Revision: 10, UID: "1"})
		f.server["a"], f.at = item{Key: "a", Revision: 11, Value: thing{uid: "1"}}, 11 // it has a deletionTimestamp
		f.shows("a", "1", 11)
		f.Expect(f.asked).To(Equal(1))
	})
}

func TestAClosedOverlayTakesNothing(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Close()
		f.overlay.Note(f.shown("a", 10, "1"))
		f.Expect(f.overlay.Load()).To(BeNil())
		f.shows("a", "", 0)
	})
}

func TestAResetForgetsWhatWasBefore(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(f.shown("a", 1000, "1"))
		f.engine.Restore(nil, 1)
		f.overlay.Reset()
		f.shows("a", "", 0) // so the server says
		f.Expect(f.asked).To(Equal(1))
		f.overlay.Note(f.shown("a", 5, "2"))
		f.shows("a", "2", 5)
	})
}

// A deletion of an object that the watch has not shown yet, by its name alone, ends with the next thing
// that proves it.
func TestADeletionOfUnknownRevisionEndsByAProof(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(f.gone("a", 0, "1"))
		f.overlay.Note(f.gone("b", 0, "2"))
		f.watch("a", 5, "1") // it is late
		f.shows("a", "", 0)
		time.Sleep(time.Second)
		f.watch("a", 6, "")
		time.Sleep(time.Second)
		entries, _ := f.overlay.Size()
		f.Expect(entries).To(Equal(1), "the watch has shown the object, and that it is gone")

		f.serverAt(9)
		time.Sleep(time.Minute)
		_, asked := f.requests()
		f.Expect(asked).To(Equal(1))
		f.watch("b", 8, "2") // late again
		f.shows("b", "", 0)
		f.watch("b", 9, "")
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())

		f.overlay.Note(f.gone("c", 0, "3"))
		f.serverAt(11)
		time.Sleep(time.Minute)
		f.watch("c", 10, "4") // another one of the same name
		f.shows("c", "4", 10)
		f.engine.Bookmark(11)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
		_, asked = f.requests()
		f.Expect(asked).To(Equal(2))
	})
}

// Between the sign that the source was restored and the list that follows, the state is of another
// history: its revision says nothing.
func TestAStateOfAnotherHistoryHasPassedNothing(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 900, "1")
		f.watch("b", 1000, "2")
		f.overlay.Reset()
		f.overlay.Note(f.shown("a", 500, "1"))
		f.overlay.Note(f.shown("new", 501, "3"))
		f.overlay.Note(f.gone("b", 400, "2"))
		f.shows("a", "1", 500)
		f.shows("new", "3", 501)
		f.shows("b", "", 0)
		time.Sleep(time.Second)
		f.shows("new", "3", 501)
		f.engine.Restore([]item{{Key: "a", Revision: 502, Value: thing{uid: "1"}}}, 502)
		f.overlay.Listed(0)
		f.shows("a", "1", 502)
		f.shows("new", "", 0) // it was deleted since
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// Before there is a sign, the state has the object as it was, or does not have it.
func TestAStateWithAnOlderVersionHasNotPassedAWrite(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 400, "1")
		f.watch("b", 1000, "2")
		f.overlay.Note(f.shown("a", 500, "1"))
		f.shows("a", "1", 500)
		f.Expect(f.asked).To(BeZero())

		f.server["new"], f.at = item{Key: "new", Revision: 501, Value: thing{uid: "3"}}, 502
		f.overlay.Note(f.shown("new", 501, "3"))
		for range 3 {
			f.shows("new", "3", 501)
			time.Sleep(time.Second)
		}
		f.Expect(f.asked).To(Equal(1))

		// The sign comes. What was noted may be of before.
		f.overlay.Reset()
		f.shows("new", "3", 501)
		f.Expect(f.asked).To(Equal(2))
		f.engine.Restore([]item{f.server["new"]}, 502)
		f.overlay.Listed(0)
		f.shows("new", "3", 501)
		time.Sleep(time.Second)
		f.shows("a", "", 0)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// An object that was deleted before the answer to its creation was noted is not shown.
func TestAStateThatWasQuickerThanTheAnswerIsRight(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 10, "1")
		f.watch("a", 11, "")
		f.at = 11
		f.overlay.Note(f.shown("a", 10, "1"))
		f.shows("a", "", 0)
		f.shows("a", "", 0)
		f.Expect(f.asked).To(Equal(1))
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// The list of an informer may be older than what was written before the informer was there.
func TestReadsWaitForWhatWasWrittenBefore(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serverAt(20)
		f.overlay.Listed(15)
		go func() {
			time.Sleep(2 * time.Second)
			f.watch("a", 15, "1")
		}()
		began := time.Now()
		f.shows("a", "1", 15)
		f.Expect(time.Since(began)).To(Equal(2 * time.Second))
		f.overlay.Listed(15)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())

		// The source was restored while there was no informer.
		f.serverAt(16)
		f.overlay.Listed(1000)
		f.shows("a", "1", 15)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}
