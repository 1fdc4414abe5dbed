// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/ownwrites"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// why returns the error with which a read of a key fails, nil if it finds nothing.
func (f *fixture) why(key string) error {
	set, state, err := f.overlay.Read(f.ctx(), key, key)
	f.Expect(err).NotTo(HaveOccurred())
	if set == nil {
		_, there := state.Get(key)
		f.ExpectWithOffset(1, there).To(BeFalse())
		return nil
	}
	_, there, why := set.Find(state, key)
	f.ExpectWithOffset(1, there).To(BeFalse())
	return why
}

// The state keeps the object of before a change that the cache cannot hold. Reads say so for as long as that is
// true, and never show the older object.
func TestAChangeThatTheCacheCannotHoldIsNotPassedByTheObjectOfBefore(t *testing.T) {
	lost := errors.New("the transform failed")
	inBubble(t, 0, func(f *fixture) {
		fails := func() {
			f.Expect(f.keys("")).To(Equal([]string{"b"}))
			f.Expect(f.why("a")).To(MatchError(lost))
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
		f.Expect(f.ended[1].Reason).To(Equal(ownwrites.ForgottenLost))
	})
}

// That there is no room for them either is told although it was told before that others were forgotten.
func TestThatTooManyAreLostIsTold(t *testing.T) {
	inBubble(t, 100_000, func(f *fixture) {
		for n := range 5000 {
			f.overlay.Note(f.gone(fmt.Sprint("k", n), 0, types.UID(fmt.Sprint(n))))
		}
		for n := range 5000 {
			key := fmt.Sprint("lost", n)
			f.watch(key, uint64(100+n), "1")
			f.overlay.Note(entry{Key: key, Outcome: ownwrites.Hidden, Revision: uint64(10_000 + n), UID: "1", Lost: errors.New("the transform failed")})
		}
		var reasons []ownwrites.Reason
		for _, e := range f.ended {
			reasons = append(reasons, e.Reason)
		}
		f.Expect(reasons).To(Equal([]ownwrites.Reason{ownwrites.Forgotten, ownwrites.ForgottenLost}))
	})
}

// An object was shown, an update of it is lost, and then all entries are forgotten, or very old, before the watch has
// brought the object.
func TestWhatWasShownAndIsLostIsNotForgotten(t *testing.T) {
	lost := errors.New("the transform failed")
	for name, end := range map[string]func(*fixture){
		"without room for more keys": func(f *fixture) {
			for n := range 5000 {
				f.overlay.Note(f.gone(fmt.Sprint("k", n), 0, types.UID(fmt.Sprint(n))))
			}
			f.Expect(f.ended).To(HaveLen(1))
		},
		"after the deadline": func(*fixture) { time.Sleep(6 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 100_000, func(f *fixture) {
				f.overlay.Note(f.shown("a", 10, "1"))
				f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Hidden, Revision: 20, UID: "1", Lost: lost})
				end(f)
				f.serverAt(40)
				f.watch("a", 10, "1")
				f.engine.Bookmark(40)
				f.Expect(f.why("a")).To(MatchError(lost))
				f.Expect(f.keys("a")).To(BeEmpty())
				f.watch("a", 50, "1")
				f.shows("a", "1", 50)
			})
		})
	}
}

// There is no room for what was shown before an update that is lost: it is known that it was.
func TestWithoutRoomForWhatWasShownAListThatMayHaveItFails(t *testing.T) {
	lost := errors.New("the transform failed")
	inBubble(t, -1, func(f *fixture) {
		f.overlay.Note(f.shown("ns/a", 10, "1"))
		f.overlay.Note(entry{Key: "ns/a", Outcome: ownwrites.Hidden, Revision: 20, UID: "1", Lost: lost})
		f.overlay.Note(f.shown("ns/b", 30, "2"))
		own, state, err := f.overlay.Read(f.ctx(), "ns/", "")
		f.Expect(err).NotTo(HaveOccurred())
		over := slices.Collect(own.Over(state, "", ""))
		f.Expect(over).To(HaveLen(2))
		f.Expect(over[0]).To(Equal(ownwrites.Over[thing]{Item: item{Key: "ns/a", Revision: 10}, Lost: lost, Dropped: true}))
		f.Expect(f.why("ns/a")).To(MatchError(lost))
		f.Expect(f.ended).To(HaveLen(1))
		f.Expect(f.ended[0].Reason).To(Equal(ownwrites.NoRoom))
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
				f.Expect(f.why("a")).To(MatchError(f.lost))
				f.overlay.Note(f.gone("a", revision, "1"))
				f.Expect(f.why("a")).To(Succeed())
				f.watch("a", 11, "1")
				f.Expect(f.why("a")).To(Succeed())
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
	note := func(f *fixture) {
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Hidden, Revision: 10, UID: "1", Lost: lost})
	}
	for name, write := range map[string]func(*fixture){
		"whose response comes last": func(f *fixture) {
			note(f)
			f.unknown("a")
		},
		"beside another one": func(f *fixture) {
			f.unknown("a")
			note(f)
			f.unknown("a")
		},
		"of which the response has a part": func(f *fixture) {
			f.changed("a", 10)
			f.unknown("a")
		},
		"of which the response has a part, and comes last": func(f *fixture) {
			f.unknown("a")
			f.changed("a", 10)
		},
		"of which the response has a part, beside others": func(f *fixture) {
			f.unknown("a")
			f.changed("a", 10)
			f.unknown("a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("a", 5, "1")
				write(f)
				f.serves("a", 20, "1")
				f.mu.Lock()
				f.lost = lost
				f.mu.Unlock()
				f.engine.Bookmark(20)
				time.Sleep(15 * time.Second)
				f.Expect(f.why("a")).To(MatchError(lost), "the state has the object of 5")
				f.watch("a", 30, "1")
				f.shows("a", "1", 30)
				time.Sleep(time.Second)
				f.Expect(f.overlay.Load()).To(BeNil())
			})
		})
	}
}

// An update of which the response has a part, and that nobody reads, is asked for when the state does not have it after
// the deadline.
func TestAnUpdateThatTheStateHasRefusedStays(t *testing.T) {
	lost := errors.New("the transform failed")
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.changed("a", 10)
		f.serves("a", 10, "1")
		f.mu.Lock()
		f.lost = lost
		f.mu.Unlock()
		f.engine.Bookmark(20)
		time.Sleep(11 * time.Minute)
		f.Expect(f.ended).To(BeEmpty())
		f.Expect(f.why("a")).To(MatchError(lost))
	})
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

// A program creates an object, and updates it before the watch has brought it. Reads have shown the object of before.
func TestAListSaysThatAnObjectThatWasShownIsLost(t *testing.T) {
	lost := errors.New("the transform failed")
	for name, write := range map[string]func(*fixture){
		"with the response": func(f *fixture) {
			f.overlay.Note(entry{Key: "ns/a", Outcome: ownwrites.Hidden, Revision: 20, UID: "1", Lost: lost})
		},
		"with an answer after the response was lost":      func(f *fixture) { f.unknown("ns/a") },
		"with an answer after one of which part is known": func(f *fixture) { f.changed("ns/a", 20) },
		"with an answer, in doubt": func(f *fixture) {
			f.unknown("ns/a")
			f.overlay.Doubt("ns/")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.lost = lost
				f.serves("ns/a", 20, "1")
				f.overlay.Note(f.shown("ns/a", 10, "1"))
				write(f)
				f.Expect(f.why("ns/a")).To(MatchError(lost))
				for _, prefix := range []string{"", "ns/"} {
					own, state, err := f.overlay.Read(f.ctx(), prefix, "")
					f.Expect(err).NotTo(HaveOccurred())
					f.Expect(own).NotTo(BeNil())
					over := slices.Collect(own.Over(state, prefix, ""))
					f.Expect(over).To(HaveLen(1))
					f.Expect(over[0].Lost).To(MatchError(lost))
					f.Expect(over[0].Item).To(Equal(item{Key: "ns/a", Revision: 10, Value: thing{uid: "1", size: 100}}), "that was shown")
					f.Expect(own.Count(state, prefix, "")).To(BeZero())
				}
				f.Expect(f.keys("other/")).To(BeEmpty())
			})
		})
	}
}

// The state never has an object that the cache cannot hold: that it does not have it does not say that it was deleted.
func TestALateResponseAfterADeletionOfWhatTheCacheCannotHold(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Hidden, Revision: 10, UID: "1", Lost: errors.New("the transform failed")})
		f.overlay.Note(f.gone("a", 0, "1"))
		f.engine.Bookmark(10)
		time.Sleep(time.Second)
		f.overlay.Note(f.shown("a", 11, "1"))
		f.shows("a", "", 0)
		f.watch("a", 11, "1")
		f.shows("a", "", 0)
		f.watch("a", 12, "")
		f.shows("a", "", 0)
	})
}

// A read has shown an answer that is not kept, because something was written after its question.
func TestAListSaysThatAnObjectIsLostThatAnAnswerHasShown(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serves("ns/a", 10, "1")
		f.unknown("ns/a")
		f.routes = map[string]route{"ns/a": {0, time.Second}}
		ended := f.meanwhile("ns/a")
		f.unknown("ns/a")
		f.Expect(ended()).To(BeEquivalentTo(10))
		f.mu.Lock()
		f.lost = errors.New("the transform failed")
		f.mu.Unlock()
		f.serves("ns/a", 20, "1")
		own, state, err := f.overlay.Read(f.ctx(), "ns/", "")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(own).NotTo(BeNil())
		over := slices.Collect(own.Over(state, "ns/", ""))
		f.Expect(over).To(HaveLen(1))
		f.Expect(over[0].Lost).To(MatchError(f.lost))
		f.Expect(over[0].Item.Revision).To(BeEquivalentTo(10))
	})
}

// The transform took the response, and refused what the watch has brought. There is no room for the response.
func TestWithoutRoomAListAsksForAnUpdateThatTheStateHasRefused(t *testing.T) {
	inBubble(t, -1, func(f *fixture) {
		f.watch("n/a", 5, "1")
		f.overlay.Note(f.shown("n/a", 10, "1"))
		f.overlay.Note(f.shown("n/b", 11, "2"))
		f.serves("n/b", 11, "2")
		f.serves("n/a", 12, "1")
		f.watch("n/b", 11, "2")
		f.engine.Bookmark(20)
		f.serverAt(20)
		f.Expect(f.keys("n/")).To(Equal([]string{"n/a", "n/b"}))
		f.shows("n/a", "1", 12)
	})
}

// The server was behind for a moment when it was asked, and the cache cannot hold the answer.
func TestAnOldAnswerThatTheCacheCannotHoldHidesNoNewObject(t *testing.T) {
	lost := errors.New("the transform failed")
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.engine.Bookmark(50)
		f.unknown("a")
		f.serves("a", 40, "1")
		f.answers(nil, lost)
		f.Expect(f.why("a")).To(MatchError(lost))
		f.answers(nil, nil)
		f.serves("a", 60, "1")
		f.watch("a", 60, "1")
		time.Sleep(10 * time.Minute)
		f.shows("a", "1", 60)
	})
}

// The server does not answer for longer than an entry stays, and nobody reads.
func TestAnUnknownWriteAfterALostOneEndsWithTheWatch(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Hidden, Revision: 10, UID: "1", Lost: errors.New("the transform failed")})
		f.unknown("a")
		f.answers(errors.New("down"), nil)
		time.Sleep(6 * time.Minute)
		f.answers(nil, nil)
		f.serves("a", 30, "1")
		f.watch("a", 30, "1")
		time.Sleep(10 * time.Minute)
		f.Expect(f.overlay.Load()).To(BeNil(), "%+v", f.overlay.Pending(9))
	})
}

// To look for a deletionTimestamp decodes the object: it is done once something can come of it.
func TestAnObjectThatIsAsItWasIsNotLookedAt(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 5, "1")
		f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Leaving, Revision: 5, UID: "1"})
		time.Sleep(5 * time.Second)
		f.Expect(f.leaving.Load()).To(BeZero())
	})
}

// A DeleteAllOf, of which the answer comes, and a write, of which the answer is lost, are of an object that is leaving
// already: neither changes it. The watch ends the entry without a read.
func TestAnUnknownWriteOfWhatWasLeavingAlreadyEnds(t *testing.T) {
	for _, leaving := range []bool{true, false} {
		inBubble(t, 0, func(f *fixture) {
			f.engine.Apply(watchcache.Change[thing, struct{}]{Item: item{Key: "a", Revision: 100, Value: thing{uid: "1", leaving: leaving}}})
			f.at = 100
			f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Leaving, Revision: 100, UID: "1"})
			f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Unknown})
			time.Sleep(time.Minute)
			if kept := f.overlay.Load() != nil; leaving {
				f.Expect(kept).To(BeFalse())
			} else {
				f.Expect(kept).To(BeTrue(), "the cache may be unable to hold the object with its deletionTimestamp")
			}
			f.Expect(f.asked).To(Equal(f.proofs))
		})
	}
}
