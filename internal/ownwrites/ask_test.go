// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
		lists, _ := f.requests()
		asked := f.keysAsked()
		f.Expect(asked).To(And(BeNumerically(">", 10), BeNumerically("<", 60)), "of 20 readers in a minute")
		f.Expect(lists).To(BeZero())

		f.mu.Lock()
		f.fails = nil
		f.at = 50
		f.mu.Unlock()
		for n := range 20 {
			f.shows(fmt.Sprintf("ns%02d/a", n), "", 0)
		}
		f.Expect(f.keysAsked()-asked).To(Equal(20), "each once")
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

// A list that is too long for the server, which answers everything else, holds up nobody but those who read it.
func TestAListThatAlwaysFailsDelaysNoOtherQuestion(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serverAt(50)
		f.overlay.Doubt("long/")
		var lists sync.WaitGroup
		lists.Go(func() {
			for range 8 {
				_, _, err := f.overlay.Read(f.ctx(), "long/", "")
				f.Expect(err).To(MatchError(errTooLong))
			}
		})
		for n := range 20 {
			time.Sleep(5 * time.Second)
			key := fmt.Sprintf("ns/%02d", n)
			f.overlay.Note(entry{Key: key, Outcome: ownwrites.Unknown})
			began := time.Now()
			f.shows(key, "", 0)
			f.Expect(time.Since(began)).To(Equal(time.Second), "as long as its answer takes")
		}
		lists.Wait()
	})
}

// A read that has nothing to ask any more says nothing of the server.
func TestWhatNeedNotBeAskedEndsNoPause(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.slow, f.fails = time.Nanosecond, errors.New("overloaded")
		for _, key := range []string{"a", "b"} {
			f.overlay.Note(entry{Key: key, Outcome: ownwrites.Unknown})
		}
		for range 10 {
			for _, key := range []string{"a", "b"} {
				_, _, err := f.overlay.Read(f.ctx(), "", key)
				f.Expect(err).To(HaveOccurred())
			}
		}
		before := f.keysAsked()
		f.overlay.Note(entry{Key: "c", Outcome: ownwrites.Changed, Revision: 5})
		var readers sync.WaitGroup
		readers.Go(func() { f.shows("c", "3", 5) }) // it waits for its turn
		time.Sleep(time.Second)
		f.watch("c", 5, "3")
		readers.Wait()
		began := time.Now()
		_, _, err := f.overlay.Read(f.ctx(), "", "a")
		f.Expect(err).To(HaveOccurred())
		f.Expect(time.Since(began)).To(BeNumerically(">", time.Second))
		f.Expect(f.keysAsked() - before).To(BeNumerically("<=", 1))
	})
}

// Each answer of the server is older than what is written while it comes. A read needs what was written before it
// alone.
func TestAWriterStarvesNoReaders(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.slow = time.Second
		writing, stop := context.WithCancel(f.ctx())
		var writer sync.WaitGroup
		var newest atomic.Uint64 // that was noted
		newest.Store(100)
		write := func() {
			f.mu.Lock()
			f.at++
			f.server["ns/a"] = item{Key: "ns/a", Revision: f.at, Value: thing{uid: "1"}}
			written := f.at
			f.mu.Unlock()
			f.overlay.Note(f.shown("ns/a", written, "1"))
			newest.Store(written)
		}
		f.serverAt(100)
		f.overlay.Note(entry{Key: "ns/a", Outcome: ownwrites.Unknown})
		writer.Go(func() {
			for writing.Err() == nil {
				write()
				time.Sleep(100 * time.Millisecond)
			}
		})
		time.Sleep(time.Millisecond)
		for range 10 {
			began, written := time.Now(), newest.Load()
			uid, shown := f.read("ns/a")
			f.Expect(uid).To(BeEquivalentTo("1"))
			f.Expect(shown).To(BeNumerically(">=", written))
			f.Expect(time.Since(began)).To(BeNumerically("<=", 2*time.Second), "a question that is under way, and one more")
			f.Expect(f.keys("ns/")).To(Equal([]string{"ns/a"}))
			for n := range 10 { // so that a list is asked for
				f.overlay.Note(entry{Key: fmt.Sprintf("many/%d", n), Outcome: ownwrites.Unknown})
			}
			f.Expect(f.keys("")).To(Equal([]string{"ns/a"}))
		}
		stop()
		writer.Wait()
	})
}

// Each answer takes a second, and something is noted more often than that of which the content is not known. A read
// needs an answer of after its begin alone.
func TestWritersOfAnythingStarveNoReaders(t *testing.T) {
	for name, write := range map[string]func(f *fixture, n int){
		"doubts":       func(f *fixture, _ int) { f.overlay.Doubt("ns/") },
		"wider doubts": func(f *fixture, n int) { f.overlay.Doubt([]string{"ns/", ""}[n%2]) },
		"other objects": func(f *fixture, n int) {
			f.overlay.Note(entry{Key: fmt.Sprint("ns/new", n), Outcome: ownwrites.Unknown})
		},
		"both": func(f *fixture, n int) {
			f.overlay.Doubt("ns/")
			f.overlay.Note(entry{Key: fmt.Sprint("ns/", n%20), Outcome: ownwrites.Unknown})
		},
		"the same objects": func(f *fixture, _ int) {
			f.overlay.Doubt("ns/")
			for _, key := range []string{"ns/a", "ns/b"} {
				f.overlay.Note(entry{Key: key, Outcome: ownwrites.Unknown})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("ns/a", 5, "1")
				f.watch("ns/b", 6, "2")
				f.server["ns/b"] = item{Key: "ns/b", Revision: 6, Value: thing{uid: "2"}}
				f.serverAt(50)
				f.overlay.Doubt("ns/") // ns/a was deleted
				writing, stop := context.WithCancel(f.ctx())
				var writer sync.WaitGroup
				writer.Go(func() {
					for n := 0; writing.Err() == nil; n++ {
						time.Sleep(900 * time.Millisecond)
						write(f, n)
					}
				})
				for range 20 {
					began := time.Now()
					f.shows("ns/a", "", 0)
					f.Expect(f.keys("ns/")).To(Equal([]string{"ns/b"}))
					f.Expect(time.Since(began)).To(BeNumerically("<=", 15*time.Second))
				}
				stop()
				writer.Wait()
			})
		})
	}
}

// besides has a writer write with one revision after another, each second, while read reads.
func besides(write func(revision uint64), read func()) {
	writing, stop := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	writer.Go(func() {
		for revision := uint64(10); writing.Err() == nil; revision++ {
			write(revision)
			time.Sleep(time.Second)
		}
	})
	time.Sleep(time.Millisecond)
	read()
	stop()
	writer.Wait()
}

// A list that waits for the watch does not wait for what is written meanwhile.
func TestAListWaitsForWhatWasWrittenBeforeItAlone(t *testing.T) {
	inBubble(t, -1, func(f *fixture) {
		write := func(revision uint64) {
			f.overlay.Note(f.shown("ns/a", revision+5, "1"))
			f.overlay.Note(f.shown("ns/b", revision+5, "2"))
			f.watch("ns/a", revision, "1")
			f.watch("ns/b", revision, "2")
		}
		besides(write, func() {
			began := time.Now()
			f.Expect(f.keys("ns/")).To(ConsistOf("ns/a", "ns/b"))
			f.Expect(time.Since(began)).To(BeNumerically("<=", 6*time.Second))
		})
	})
}

// Writes for whose objects there is no room come faster than the watch: a list does not wait for ever.
func TestAListWaitsTenSecondsForTheWatchInAll(t *testing.T) {
	inBubble(t, -1, func(f *fixture) {
		write := func(revision uint64) {
			f.overlay.Note(f.shown("ns/a", revision+5, "1"))
			f.overlay.Note(f.shown("ns/b", revision+20, "2"))
			f.overlay.Note(f.shown("ns/c", revision+20, "3")) // there is room for one
			f.watch("ns/a", revision, "1")
			f.watch("ns/b", revision, "2")
		}
		besides(write, func() {
			began := time.Now()
			_, _, err := f.overlay.Read(f.ctx(), "ns/", "")
			behind := (*ownwrites.BehindError)(nil)
			f.Expect(errors.As(err, &behind)).To(BeTrue(), "%v", err)
			f.Expect(time.Since(began)).To(Equal(10 * time.Second))
		})
	})
}

// The server has failed, and answers again. Reads that wait for their turn see what the watch brings meanwhile, and
// one that has nothing to ask any more takes the turn of no other.
func TestAReadThatWaitsForItsTurnSeesTheWatch(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serverAt(50)
		f.slow, f.fails = time.Nanosecond, errors.New("overloaded")
		for _, key := range []string{"n1/x", "n2/x"} {
			f.overlay.Note(entry{Key: key, Outcome: ownwrites.Unknown})
		}
		for range 10 { // until the pause is the longest
			for _, key := range []string{"n1/x", "n2/x"} {
				_, _, err := f.overlay.Read(f.ctx(), key, key)
				f.Expect(err).To(HaveOccurred())
			}
		}
		before := f.keysAsked()
		f.mu.Lock()
		f.fails = nil
		f.mu.Unlock()
		began := time.Now()
		f.overlay.Note(entry{Key: "n1/a", Outcome: ownwrites.Changed, Revision: 5})
		var readers sync.WaitGroup
		readers.Go(func() {
			f.shows("n1/a", "1", 5)
			f.Expect(time.Since(began)).To(BeNumerically("<", 2*time.Second), "the watch brings it after a second")
		})
		time.Sleep(time.Second)
		f.watch("n1/a", 5, "1")
		f.overlay.Note(entry{Key: "n3/a", Outcome: ownwrites.Unknown})
		readers.Go(func() {
			f.shows("n3/a", "", 0)
			f.Expect(time.Since(began)).To(BeNumerically("<", 6*time.Second), "after one pause")
		})
		readers.Wait()
		f.Expect(f.keysAsked() - before).To(Equal(1))
	})
}
