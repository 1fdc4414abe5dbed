// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/ownwrites"
)

// The state keeps the object of before a change that the cache cannot hold. Reads say so for as long as that is
// true, and never show the older object.
func TestAChangeThatTheCacheCannotHoldIsNotPassedByTheObjectOfBefore(t *testing.T) {
	lost := errors.New("the transform failed")
	inBubble(t, 0, func(f *fixture) {
		fails := func() {
			f.Expect(f.keys("")).To(Equal([]string{"b"}))
			set, state, err := f.overlay.Read(f.ctx(), "", "a")
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(set).NotTo(BeNil())
			_, there, err := set.Find(state, "a")
			f.Expect(there).To(BeFalse())
			f.Expect(err).To(MatchError(lost))
		}
		f.watch("a", 5, "1")
		f.watch("b", 6, "2")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Hidden, Revision: 10, UID: "1", Lost: lost})
		fails()
		f.watch("b", 20, "2") // so it has seen the change
		fails()
		time.Sleep(10 * time.Minute)
		fails()
		f.Expect(f.ended).To(BeEmpty())
		f.watch("a", 30, "1")
		f.shows("a", "1", 30)
		time.Sleep(6 * time.Minute) // no sweep comes sooner
		f.Expect(f.overlay.Load()).To(BeNil())

		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Hidden, Revision: 40, UID: "1", Lost: lost})
		f.watch("a", 41, "")
		f.shows("a", "", 0)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// It may stay for as long as the program runs. That costs next to nothing, and other writes end as soon as ever.
func TestWhatTheCacheCannotHoldIsNotSweptAllTheTime(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Hidden, Revision: 10, UID: "1", Lost: errors.New("the transform failed")})
		for range 2 {
			time.Sleep(6 * time.Minute)
			before := f.states.Load()
			time.Sleep(time.Hour)
			f.Expect(f.states.Load()-before).To(BeNumerically("<", 100), "looks at the state in an hour")
			f.overlay.Note(f.shown("b", 20, "2"))
			f.watch("b", 20, "2")
			time.Sleep(time.Second)
			entries, _ := f.overlay.Size()
			f.Expect(entries).To(Equal(1))
		}
		f.watch("a", 30, "1")
		time.Sleep(6 * time.Minute)
		f.Expect(f.overlay.Load()).To(BeNil())
		f.Expect(f.ended).To(BeEmpty())
	})
}

// Without room for more keys all entries are forgotten, but those without which reads would show an object of before.
func TestWhatTheCacheCannotHoldIsNotForgotten(t *testing.T) {
	inBubble(t, 100_000, func(f *fixture) {
		lost := errors.New("the transform failed")
		write := func(n, revision int) {
			f.overlay.Note(entry{Key: fmt.Sprint("lost", n), Outcome: ownwrites.Hidden, Revision: uint64(revision), UID: "1", Lost: lost})
		}
		f.watch("lost1", 5, "1")
		write(1, 10)
		write(2, 11) // of which the state has none
		for n := range 5000 {
			f.overlay.Note(f.gone(fmt.Sprint("k", n), 0, types.UID(fmt.Sprint(n))))
		}
		f.Expect(f.ended).To(HaveLen(1))
		f.Expect(f.ended[0].Reason).To(Equal(ownwrites.Forgotten))
		f.serverAt(40)
		f.engine.Bookmark(40)
		set, state, err := f.overlay.Read(f.ctx(), "lost", "")
		f.Expect(err).NotTo(HaveOccurred())
		_, there, why := set.Find(state, "lost1")
		f.Expect(there).To(BeFalse())
		f.Expect(why).To(MatchError(lost))
		_, _, why = set.Find(state, "lost2")
		f.Expect(why).NotTo(HaveOccurred())

		// There is no room for too many of them either, which is told.
		time.Sleep(time.Minute)
		f.watch("lost1", 50, "1")
		time.Sleep(6 * time.Minute)
		f.Expect(f.overlay.Load()).To(BeNil())
		for n := range 5000 {
			f.watch(fmt.Sprint("lost", n), uint64(100+n), "1")
			write(n, 10_000+n)
		}
		_, bytes := f.overlay.Size()
		f.Expect(bytes).To(BeNumerically("<=", 1<<20))
		f.Expect(f.ended).To(HaveLen(2))
		f.Expect(f.ended[1].Reason).To(Equal(ownwrites.Forgotten))
	})
}

// A deletion after an answer that the cache cannot hold, by the name or with the object that was written.
func TestADeletionAfterAnAnswerThatTheCacheCannotHold(t *testing.T) {
	for name, revision := range map[string]uint64{"by name": 0, "of the object": 10} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("a", 5, "1")
				f.server["a"] = item{Key: "a", Revision: 10, Value: thing{uid: "1"}}
				f.lost = errors.New("the transform failed")
				f.serverAt(12)
				f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Unknown})
				find := func() error {
					set, state, err := f.overlay.Read(f.ctx(), "", "a")
					f.Expect(err).NotTo(HaveOccurred())
					if set == nil {
						_, there := state.Get("a")
						f.Expect(there).To(BeFalse())
						return nil
					}
					_, there, lost := set.Find(state, "a")
					f.Expect(there).To(BeFalse())
					return lost
				}
				f.Expect(find()).To(MatchError(f.lost))
				f.overlay.Note(f.gone("a", revision, "1"))
				f.Expect(find()).To(Succeed())
				f.watch("a", 11, "1")
				f.Expect(find()).To(Succeed())
				f.watch("a", 13, "")
				time.Sleep(time.Second)
				f.Expect(f.overlay.Load()).To(BeNil())
			})
		})
	}
}

// After an update that the cache cannot hold the object is evicted, and nobody reads until the state is past that. The
// state still has the object of before the update.
func TestAnUnknownWriteAfterOneThatTheCacheCannotHold(t *testing.T) {
	lost := errors.New("the transform failed")
	for name, write := range map[string]func(*fixture){
		"whose response comes last": func(*fixture) {},
		"beside another one": func(f *fixture) {
			f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Unknown})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("a", 5, "1")
				write(f)
				f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Hidden, Revision: 10, UID: "1", Lost: lost})
				f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Unknown})
				f.serves("a", 20, "1")
				f.mu.Lock()
				f.lost = lost
				f.mu.Unlock()
				f.engine.Bookmark(20)
				time.Sleep(15 * time.Second)
				set, state, err := f.overlay.Read(f.ctx(), "", "a")
				f.Expect(err).NotTo(HaveOccurred())
				f.Expect(set).NotTo(BeNil(), "the state has the object of 5")
				_, there, why := set.Find(state, "a")
				f.Expect(there).To(BeFalse())
				f.Expect(why).To(MatchError(lost))
				f.watch("a", 30, "1")
				f.shows("a", "1", 30)
				time.Sleep(time.Second)
				f.Expect(f.overlay.Load()).To(BeNil())
			})
		})
	}
}

// What is told once is told again when nothing else is left.
func TestWhatTheCacheCannotHoldDoesNotKeepTheWarningOfNoRoomBack(t *testing.T) {
	inBubble(t, -1, func(f *fixture) {
		f.watch("lost", 5, "1")
		f.overlay.Note(entry{Key: "lost", Outcome: ownwrites.Hidden, Revision: 10, UID: "1", Lost: errors.New("the transform failed")})
		for n := range 3 {
			revision := uint64(20 + 10*n)
			for _, key := range []string{"a", "b", "c"} {
				f.overlay.Note(f.shown(key, revision, "2"))
			}
			f.Expect(f.ended).To(HaveLen(n + 1))
			f.Expect(f.ended[n].Reason).To(Equal(ownwrites.NoRoom))
			for _, key := range []string{"a", "b", "c"} {
				f.watch(key, revision, "2")
			}
			time.Sleep(6 * time.Minute)
		}
	})
}
