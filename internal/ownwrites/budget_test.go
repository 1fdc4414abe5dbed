// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/ownwrites"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// large returns an entry of which four have room in a budget of 100,000 bytes, as long as no other
// overlay has any.
func large(key string, revision uint64, uid types.UID) entry {
	return entry{Key: key, Outcome: ownwrites.Shown, Revision: revision, UID: uid, Value: thing{uid: uid, size: 15_000}}
}

func TestWithoutRoomAnObjectBecomesAMark(t *testing.T) {
	inBubble(t, 100_000, func(f *fixture) {
		f.watch("deleted", 2, "9")
		f.overlay.Note(f.gone("deleted", 0, "9"))
		for n := range 6 {
			key, revision := fmt.Sprint("k", n), uint64(10+n)
			f.overlay.Note(large(key, revision, "1"))
			f.server[key] = item{Key: key, Revision: revision, Value: thing{uid: "1", size: 15_000}}
		}
		f.at = 20
		entries, bytes := f.overlay.Size()
		f.Expect(entries).To(Equal(7), "nothing is lost")
		f.Expect(bytes).To(BeNumerically("<", 75_000))
		f.Expect(f.ended).To(Equal([]ownwrites.Ending{{Key: "k0", Outcome: ownwrites.Shown, Revision: 10, Reached: 2, Reason: ownwrites.NoRoom}}), "said once")
		f.shows("deleted", "", 0)
		f.shows("k5", "1", 15)
		f.Expect(f.asked).To(BeZero())

		f.shows("k0", "1", 10) // its object is known now, and the oldest one is not any more
		f.Expect(f.asked).To(Equal(1))
		f.shows("k0", "1", 10)
		f.Expect(f.asked).To(Equal(1))
		f.shows("k2", "1", 12)
		f.Expect(f.asked).To(Equal(2))

		// A list does not ask for what has no room, but waits for the watch.
		_, _, err := f.overlay.Read(f.ctx(), "", "")
		behind := (*ownwrites.BehindError)(nil)
		f.Expect(errors.As(err, &behind)).To(BeTrue())
		f.Expect(behind.Wanted).To(BeEquivalentTo(11))
		go func() {
			time.Sleep(time.Second)
			for n := range 6 {
				f.watch(fmt.Sprint("k", n), uint64(10+n), "1")
			}
		}()
		_, state, err := f.overlay.Read(f.ctx(), "", "")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(state.Revision()).To(BeNumerically(">=", 14))
		f.Expect(f.asked).To(Equal(2))
		f.Expect(f.listed).To(BeZero())
	})
}

func TestAnObjectThatIsTooLargeCanBeRead(t *testing.T) {
	inBubble(t, -1, func(f *fixture) {
		f.overlay.Note(large("a", 5, "1"))
		f.shows("a", "1", 5)
		f.overlay.Note(large("b", 6, "1"))
		f.server["a"], f.at = item{Key: "a", Revision: 5, Value: thing{uid: "1", size: 15_000}}, 6
		f.shows("b", "1", 6)
		f.shows("a", "1", 5)
		f.Expect(f.asked).To(Equal(1))
	})
}

// One kind whose watch is late does not take the room of the others.
func TestEachOverlayHasRoom(t *testing.T) {
	inBubble(t, 1_000_000, func(f *fixture) {
		for n := range 100 {
			f.overlay.Note(large(fmt.Sprint("late", n), uint64(10+n), "1"))
		}
		engine := watchcache.New[thing, struct{}](watchcache.Options[thing]{})
		engine.Replace(nil, 1)
		other := ownwrites.New(ownwrites.Options[thing]{
			State: engine.Snapshot, Wait: engine.WaitUntilFreshAfter, Ask: f.ask, List: f.list, Budget: f.budget,
			UID: func(t thing) types.UID { return t.uid }, Size: func(t thing) int { return t.size }, Leaving: func(t thing) bool { return t.leaving },
			Ended: func(ownwrites.Ending) { t.Error("there is no room for the second kind") },
		})
		defer other.Close()
		for n := range 8 {
			other.Note(large(fmt.Sprint("k", n), uint64(10+n), "1"))
		}
		_, bytes := f.overlay.Size()
		_, others := other.Size()
		f.Expect(bytes + others).To(BeNumerically("<", 1_000_000))

		// The first one gives way when it looks again.
		time.Sleep(time.Second)
		_, now := f.overlay.Size()
		f.Expect(now).To(BeNumerically("<", bytes))
	})
}

// When there is no room for keys either, reads wait until the watch is as far as the server is.
func TestWithoutRoomForKeysReadsWaitForTheServersRevision(t *testing.T) {
	inBubble(t, 100_000, func(f *fixture) {
		for n := range 5000 {
			f.overlay.Note(f.gone(fmt.Sprint("k", n), 0, types.UID(fmt.Sprint(n))))
		}
		f.Expect(f.ended).To(HaveLen(1))
		f.Expect(f.ended[0].Reason).To(Equal(ownwrites.Forgotten))
		_, bytes := f.overlay.Size()
		f.Expect(bytes).To(BeNumerically("<=", 1<<20))
		f.serverAt(40)
		go func() {
			time.Sleep(3 * time.Second)
			f.watch("k0", 39, "0") // the server has written it before it was deleted
			f.engine.Bookmark(40)
		}()
		began := time.Now()
		_, state, err := f.overlay.Read(f.ctx(), "x", "x")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(time.Since(began)).To(Equal(3 * time.Second))
		f.Expect(state.Revision()).To(BeEquivalentTo(40))
		_, asked := f.requests()
		f.Expect(asked).To(Equal(1), "for all of them")
		time.Sleep(time.Minute)
		_, asked = f.requests()
		f.Expect(asked).To(Equal(2), "for the proof of the others")
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// After a deletion of many objects a read makes one request for all.
func TestManyUnknownObjectsAreListed(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		for n := range 20 {
			key := fmt.Sprintf("ns/%02d", n)
			f.watch(key, uint64(10+n), types.UID(key))
			f.overlay.Note(entry{Key: key, Outcome: ownwrites.Leaving, Revision: uint64(10 + n), UID: types.UID(key)})
			if n%2 == 0 { // it has a deletionTimestamp
				f.server[key] = item{Key: key, Revision: uint64(50 + n), Value: thing{uid: types.UID(key)}}
			}
		}
		f.at = 90
		f.overlay.Note(entry{Key: "other/a", Outcome: ownwrites.Unknown})
		set, state, err := f.overlay.Read(f.ctx(), "ns/", "")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(set.Count(state, "ns/", "")).To(Equal(10))
		f.Expect([]int{f.listed, f.asked}).To(Equal([]int{1, 0}))
		for n := range 20 {
			found, there, _ := set.Find(state, fmt.Sprintf("ns/%02d", n))
			f.Expect(there).To(Equal(n%2 == 0))
			f.Expect(found.Revision == uint64(50+n)).To(Equal(n%2 == 0))
		}
		f.shows("ns/07", "", 0)
		f.Expect([]int{f.listed, f.asked}).To(Equal([]int{1, 0}))
		f.shows("other/a", "", 0)
		f.Expect([]int{f.listed, f.asked}).To(Equal([]int{1, 1}))
	})
}

// A budget that is too small for anything has room for some thousand keys all the same, and one without
// an end has room for all.
func TestTheLeastAndTheGreatestBudget(t *testing.T) {
	for name, bytes := range map[string]int64{"least": 1, "greatest": math.MaxInt64} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bytes, func(f *fixture) {
				f.watch("a", 5, "1")
				f.watch("b", 6, "2")
				f.overlay.Note(f.gone("a", 5, "1"))
				f.overlay.Note(f.gone("b", 6, "2"))
				f.shows("a", "", 0)
				f.shows("b", "", 0)
				f.overlay.Note(f.shown("b", 11, "4"))
				f.shows("b", "4", 11)
				f.Expect(f.ended).To(BeEmpty())
				f.Expect(f.asked).To(BeZero())
			})
		})
	}
}
