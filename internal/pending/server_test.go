// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"context"
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

// TestAServerThatIsDownIsAskedOnceForAllKeys after each pause.
func TestAServerThatIsDownIsAskedOnceForAllKeys(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(pending.Target) (pending.Answer[thing], error) { return pending.Answer[thing]{}, errDown }
		var all sync.WaitGroup
		end := time.Now().Add(time.Minute)
		for n := range 100 {
			key := fmt.Sprint("a/", n)
			f.writes.Note(entry{Key: key, Outcome: note.Ambiguous})
			all.Go(func() {
				for time.Now().Before(end) {
					_, _, err := f.get(key)
					f.Expect(err).To(MatchError(errDown))
				}
			})
		}
		all.Wait()
		f.Expect(f.asked.Load()).To(BeNumerically("<", 200)) // 100 at first, and then one after each pause
	})
}

// TestAPauseBeginsWithTheFailure: an hour later nothing is waited for.
func TestAPauseBeginsWithTheFailure(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		var up atomic.Bool
		f.answer = func(pending.Target) (pending.Answer[thing], error) {
			if up.Load() {
				return pending.Answer[thing]{Revision: 20}, nil
			}
			return pending.Answer[thing]{}, errDown
		}
		f.writes.Note(entry{Key: "a/1", Outcome: note.Ambiguous})
		for range 10 {
			_, _, err := f.get("a/1")
			f.Expect(err).To(HaveOccurred())
		}
		time.Sleep(time.Hour)
		f.Expect(f.writes.Empty()).To(BeTrue())
		up.Store(true)
		f.writes.Note(entry{Key: "a/1", Outcome: note.Ambiguous})
		began := time.Now()
		_, _, err := f.get("a/1")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(time.Since(began)).To(BeNumerically("<", time.Second))
	})
}

// TestAListWithoutRoomIsNotAskedForByEachGet: then reads of a key ask for the key.
func TestAListWithoutRoomIsNotAskedForByEachGet(t *testing.T) {
	for name, budget := range map[string]int64{"default": 0, "none": -1} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, budget, func(f *fixture) {
				var objects atomic.Int64
				f.answer = func(of pending.Target) (pending.Answer[thing], error) {
					a := pending.Answer[thing]{Revision: 20}
					for n := range 5000 {
						if key := fmt.Sprintf("a/%04d", n); of.Has(key) {
							a.Items = append(a.Items, item{Key: key, Revision: 15, Value: thing{uid: types.UID(key), size: 10_000}})
						}
					}
					objects.Add(int64(len(a.Items)))
					return a, nil
				}
				f.writes.NotePrefix("a/", 0)
				for n := range 50 {
					_, there, err := f.get(fmt.Sprintf("a/%04d", n))
					f.Expect(err).NotTo(HaveOccurred())
					f.Expect(there).To(BeTrue())
				}
				f.Expect(objects.Load()).To(BeNumerically("<", 10_000))
			})
		})
	}
}

// TestTheSweeperAsksForTheRevisionAlone, of which no statement about an object is made.
func TestTheSweeperAsksForTheRevisionAlone(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.answer = func(of pending.Target) (pending.Answer[thing], error) {
			f.Expect(of).To(BeZero())
			return pending.Answer[thing]{Revision: 20}, nil
		}
		f.writes.NotePrefix("a/", 0)
		time.Sleep(15 * time.Second)
		f.Expect(f.asked.Load()).To(BeEquivalentTo(1))
		f.Expect(f.writes.All(pending.Target{All: true}, 10)).To(HaveLen(1), "the prefix")
	})
}

// TestNothingIsToldAfterClose but what was being told.
func TestNothingIsToldAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := watchcache.New[thing, struct{}](watchcache.Options[thing]{})
		engine.Replace(nil, 10)
		var closed atomic.Bool
		var late atomic.Int64
		w := pending.New(pending.Options[thing]{
			State: engine.Snapshot, Wait: engine.WaitUntilFreshAfter, Budget: pending.NewBudget(0),
			Ask: func(context.Context, pending.Target) (pending.Answer[thing], error) {
				return pending.Answer[thing]{}, errDown
			},
			UID: func(t thing) types.UID { return t.uid }, Size: func(t thing) int { return t.size },
			Ended: func(pending.Ending) {
				if closed.Load() {
					late.Add(1)
				}
				time.Sleep(time.Second)
			},
		})
		for n := range 3 {
			w.Note(made(fmt.Sprint("a/", n), 20))
		}
		time.Sleep(5*time.Minute + 500*time.Millisecond)
		w.Close()
		closed.Store(true)
		time.Sleep(time.Minute)
		if late.Load() > 0 {
			t.Errorf("told %d times after Close", late.Load())
		}
	})
}
