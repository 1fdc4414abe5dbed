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
			f.watchLeaving("a", 7, "1")
		}()
		f.shows("a", "1", 7)
		f.Expect(f.asked).To(BeZero())
	})
}

// A server lists a collection, and deletes one object after another. What changes in between is not the deletion.
func TestADeletionWithFinalizersIsNotSettledByAChangeOfBefore(t *testing.T) {
	for name, read := range map[string]func(*fixture) uint64{
		"before a read":          func(f *fixture) uint64 { return f.meanwhile("a")() },
		"and the response to it": func(f *fixture) uint64 { f.overlay.Note(f.shown("a", 6, "1")); return f.meanwhile("a")() },
		"and another write": func(f *fixture) uint64 {
			f.unknown("a")
			f.engine.Bookmark(10)
			time.Sleep(15 * time.Second)
			return f.meanwhile("a")()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("a", 5, "1")
				f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Leaving, Revision: 5, UID: "1"})
				f.serves("a", 7, "1")
				f.serverAt(10)
				if name != "and another write" { // then the state has refused both
					f.watch("a", 6, "1")
				}
				f.Expect(read(f)).To(BeEquivalentTo(7))
			})
		})
	}
}

func TestADeletionWithFinalizersThatNobodyReadsEnds(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Leaving, Revision: 5, UID: "1"})
		f.watchLeaving("b", 6, "2")
		f.overlay.Note(entry{Key: "b", Outcome: ownwrites.Leaving, Revision: 6, UID: "2"}) // which changes nothing
		f.serverAt(10)
		f.watch("a", 10, "1") // the cache does not keep the deletionTimestamp
		time.Sleep(15 * time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
		f.Expect(f.ended).To(BeEmpty())
	})
}

// A response that has the deletionTimestamp is newer than the deletion.
func TestAWriteAfterADeletionWithFinalizersIsShown(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Leaving, Revision: 5, UID: "1"})
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Shown, Revision: 7, UID: "1", Value: thing{uid: "1", leaving: true}})
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

// The server answers a question with what it had when it was asked. What is written meanwhile is newer: reads
// that begin after it ask again.
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
		var readers sync.WaitGroup
		readers.Go(func() {
			time.Sleep(600 * time.Millisecond)
			f.shows("a", "1", 50)
		})
		f.shows("a", "1", 40)
		f.shows("a", "1", 50)
		readers.Wait()
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
		f.serves("c", 10, "4")
		f.serverAt(11)
		time.Sleep(time.Minute)
		f.watch("c", 10, "4") // another one of the same name, maybe of before
		f.shows("c", "4", 10)
		f.engine.Bookmark(11)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
		_, asked = f.requests()
		f.Expect(asked).To(Equal(3))
	})
}

// What became of it is not known. A state that is as far as the server was after it says what, and no question is
// asked of it any more.
func TestAWriteOfUnknownContentEndsByAProof(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Unknown})
		f.overlay.Note(entry{Key: "b", Outcome: ownwrites.Unknown})
		f.serverAt(9)
		time.Sleep(10*time.Second + 500*time.Millisecond)
		f.overlay.Note(entry{Key: "late", Outcome: ownwrites.Unknown}) // the question that is under way says nothing of it
		time.Sleep(5 * time.Second)
		_, asked := f.requests()
		f.Expect(asked).To(Equal(1))
		f.watch("a", 8, "1")
		time.Sleep(time.Second)
		entries, _ := f.overlay.Size()
		f.Expect(entries).To(Equal(3), "the change may be that of another one")
		f.watch("c", 9, "3")
		f.shows("a", "1", 8)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Pending(9)).To(ConsistOf(HaveField("Key", "late")))
		_, asked = f.requests()
		f.Expect(asked).To(Equal(1))
		time.Sleep(10 * time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())

		// It is written again before the watch is as far.
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Unknown})
		f.serverAt(20)
		time.Sleep(15 * time.Second)
		f.overlay.Note(f.gone("a", 8, "1"))
		f.serverAt(22)
		f.watch("a", 20, "1")
		f.shows("a", "", 0)
		f.watch("a", 22, "")
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
		time.Sleep(10 * time.Minute)
		f.Expect(f.ended).To(BeEmpty())
	})
}

// The proof is a version of after a restore that the watch has not noticed yet: the state of before is no proof.
func TestAProofOfAfterARestore(t *testing.T) {
	for name, noted := range map[string]entry{
		"of unknown content": {Key: "a", Outcome: ownwrites.Unknown}, "a deletion": {Key: "a", Outcome: ownwrites.Gone, UID: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("b", 1000, "2")
				f.overlay.Note(noted)
				f.serverAt(9)
				time.Sleep(15 * time.Second)
				f.Expect(f.overlay.Pending(1)).To(HaveLen(1))
				f.engine.Restore([]item{{Key: "a", Revision: 5, Value: thing{uid: "1"}}}, 8)
				f.overlay.Listed(0)
				f.Expect(f.overlay.Pending(1)).To(HaveLen(1))
				f.watch("a", 9, "")
				f.shows("a", "", 0)
				time.Sleep(time.Second)
				f.Expect(f.overlay.Load()).To(BeNil())
			})
		})
	}
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

// The object was deleted that the state has not brought yet. Before it there was another one, and maybe after it.
func TestAnotherObjectThanTheOneThatWasDeletedIsAskedFor(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(f.gone("a", 0, "2"))
		f.serverAt(20)
		f.watch("a", 5, "1")
		f.shows("a", "", 0)
		f.watch("a", 6, "")
		f.watch("a", 7, "2")
		f.shows("a", "", 0)
		f.watch("a", 20, "")
		f.shows("a", "", 0)
		f.Expect(f.asked).To(Equal(1))

		f.overlay.Note(f.gone("b", 0, "3"))
		f.serves("b", 40, "4")
		f.watch("b", 40, "4")
		f.shows("b", "4", 40)
		f.Expect(f.keys("")).To(Equal([]string{"b"}))
		f.Expect(f.asked).To(Equal(2))
	})
}
