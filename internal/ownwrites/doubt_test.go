// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/ownwrites"
)

// keys returns what a list of keys with prefix shows.
func (f *fixture) keys(prefix string) (keys []string) {
	set, state, err := f.overlay.Read(f.ctx(), prefix, "")
	f.Expect(err).NotTo(HaveOccurred())
	for item := range state.Items(prefix, "") {
		if set == nil {
			keys = append(keys, item.Key)
		} else if _, there, _ := set.Find(state, item.Key); there {
			keys = append(keys, item.Key)
		}
	}
	if set != nil {
		for over := range set.Over(state, prefix, "") {
			if _, there := state.Get(over.Item.Key); over.Shown && !there {
				keys = append(keys, over.Item.Key)
			}
		}
	}
	return keys
}

// forAKeyAndAList runs a test with a read of ns/a, and with one of all in its namespace.
func forAKeyAndAList(t *testing.T, test func(f *fixture, findsNothing func())) {
	for name, read := range map[string]func(*fixture){
		"for a key":  func(f *fixture) { f.shows("ns/a", "", 0) },
		"for a list": func(f *fixture) { f.Expect(f.keys("ns/")).To(BeEmpty()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) { test(f, func() { read(f) }) })
		})
	}
}

func TestADoubtIsOfAllObjectsWithAPrefix(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		for n := range 20 {
			f.watch(fmt.Sprintf("ns/%02d", n), uint64(10+n), "1")
		}
		f.watch("other/a", 40, "2")
		f.overlay.Note(f.shown("ns/new", 41, "3"))
		f.overlay.Doubt("ns/")
		f.server["ns/03"], f.at = item{Key: "ns/03", Revision: 13, Value: thing{uid: "1"}}, 50
		f.server["ns/unseen"] = item{Key: "ns/unseen", Revision: 45, Value: thing{uid: "4"}}
		f.shows("other/a", "2", 40)
		f.Expect(f.keys("other/")).To(HaveLen(1))
		f.Expect([]int{f.listed, f.asked}).To(Equal([]int{0, 0}))
		for range 3 {
			f.Expect(f.keys("ns/")).To(Equal([]string{"ns/03", "ns/unseen"}))
			f.shows("ns/03", "1", 13)
			f.shows("ns/04", "", 0)
			f.shows("ns/new", "", 0)
			f.Expect(f.keys("")).To(Equal([]string{"ns/03", "other/a", "ns/unseen"}))
		}
		f.Expect([]int{f.listed, f.asked}).To(Equal([]int{1, 0}))

		f.engine.Bookmark(50)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil(), "the watch is as far as the server was")
	})
}

// A read of one object asks for one, and the reads of many objects ask for a list.
func TestReadsOfManyKeysInDoubtListOnce(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Doubt("")
		f.serverAt(50)
		f.slow = 1050 * time.Millisecond // a read does not look for the watch at the same time
		for range 2 {
			for n := range 30 {
				f.shows(fmt.Sprintf("ns/%02d", n), "", 0)
			}
		}
		lists, asked := f.requests()
		f.Expect([]int{lists, asked}).To(Equal([]int{1, 8}))
	})
}

// The reads of namespaces have bounds too, if all namespaces are in doubt.
func TestReadsOfManyPrefixesInDoubtListOnce(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Doubt("")
		f.serverAt(50)
		for range 2 {
			for n := range 30 {
				f.Expect(f.keys(fmt.Sprintf("ns%02d/", n))).To(BeEmpty())
			}
		}
		lists, asked := f.requests()
		f.Expect([]int{lists, asked}).To(Equal([]int{9, 0}))
	})
}

// It is not known whether a write whose answer comes later was made before what is in doubt or after it,
// until the server has said how far it was.
func TestAWriteWhileThereIsADoubt(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("ns/deleted", 5, "9")
		f.overlay.Doubt("ns/")
		f.overlay.Note(f.shown("ns/a", 41, "1"))
		f.overlay.Note(f.gone("ns/deleted", 5, "9"))
		f.serverAt(50) // which has no ns/a
		f.shows("ns/deleted", "", 0)
		_, asked := f.requests()
		f.Expect(asked).To(BeZero(), "what is gone stays so")
		f.shows("ns/a", "", 0)
		f.overlay.Note(f.shown("ns/b", 49, "2"))
		f.shows("ns/b", "", 0)
		_, asked = f.requests()
		f.Expect(asked).To(Equal(2))
		f.overlay.Note(f.shown("ns/c", 51, "3"))
		f.shows("ns/c", "3", 51)
		_, asked = f.requests()
		f.Expect(asked).To(Equal(2), "it is newer than what was in doubt")
	})
}

// The answer to a question of before says nothing of a later write. It is enough for a read of before.
func TestADoubtThatComesDuringAQuestion(t *testing.T) {
	forAKeyAndAList(t, func(f *fixture, findsNothing func()) {
		f.watch("ns/a", 5, "1")
		f.overlay.Doubt("ns/")
		f.serverAt(40)
		go func() {
			time.Sleep(time.Second / 2)
			f.overlay.Doubt("ns/")
		}()
		for n := range 3 {
			findsNothing()
			lists, asked := f.requests()
			f.Expect(lists+asked).To(Equal(min(n+1, 2)), "the first answer is not enough for the second read")
		}
	})
}

// What is noted while a list is on its way does not bring back what the list does not have.
func TestAWriteDuringAListOfADoubt(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("ns/a", 5, "1")
		f.watch("ns/b", 6, "2")
		f.overlay.Doubt("ns/") // both were deleted
		f.serverAt(50)
		go func() {
			time.Sleep(time.Second / 2)
			f.overlay.Note(entry{Key: "ns/a", Outcome: ownwrites.Unknown})
			f.overlay.Doubt("ns/")
			time.Sleep(time.Second / 4)
			f.watch("ns/brief", 40, "3") // and is deleted before 50
		}()
		f.Expect(f.keys("ns/")).To(BeEmpty())
		lists, asked := f.requests()
		f.Expect([]int{lists, asked}).To(Equal([]int{1, 0}))
	})
}

// The watch passes what the program wrote before, while the server is asked what came after it.
func TestTheWatchPassesAnEntryDuringAQuestion(t *testing.T) {
	forAKeyAndAList(t, func(f *fixture, findsNothing func()) {
		f.watch("ns/a", 9, "1")
		f.overlay.Note(f.shown("ns/a", 10, "1"))
		f.overlay.Doubt("ns/")
		f.serverAt(12) // which has no ns/a
		go func() {
			time.Sleep(time.Second / 2)
			f.watch("ns/a", 10, "1")
		}()
		findsNothing()
		findsNothing()
	})
}

// The list says what there is at its revision. What others have created and deleted after the state of before
// comes and goes on the way there, and what they have created stays.
func TestWhatAListHasDeniedIsNotShownOnTheWayToIt(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("ns/old", 5, "1")
		f.watch("other/a", 40, "2")
		f.overlay.Doubt("ns/")
		f.server["ns/old"] = item{Key: "ns/old", Revision: 5, Value: thing{uid: "1"}}
		f.server["ns/new"] = item{Key: "ns/new", Revision: 55, Value: thing{uid: "4"}}
		f.serverAt(60)
		f.Expect(f.keys("ns/")).To(Equal([]string{"ns/old", "ns/new"}))
		shows := func(all ...string) {
			for range 2 { // before and after a sweep
				f.Expect(f.keys("")).To(ConsistOf(all))
				f.shows("ns/brief", "", 0)
				f.shows("ns/old", "1", 5)
				f.shows("ns/new", "4", 55)
				time.Sleep(time.Second)
			}
		}
		f.watch("ns/brief", 50, "3")
		f.watch("other/b", 51, "6") // the list was not of these
		shows("ns/old", "ns/new", "other/a", "other/b")
		f.watch("ns/new", 55, "4")
		shows("ns/old", "ns/new", "other/a", "other/b")
		f.overlay.Note(f.shown("ns/own", 70, "5"))
		f.shows("ns/own", "5", 70)
		f.watch("ns/brief", 58, "")
		f.watch("ns/own", 70, "5")
		shows("ns/old", "ns/new", "ns/own", "other/a", "other/b")
		f.Expect(f.overlay.Load()).To(BeNil(), "the watch has passed the list")
		lists, asked := f.requests()
		f.Expect([]int{lists, asked}).To(Equal([]int{1, 0}))
	})
}

// What was answered for a key, or noted, on the way to a list is not denied by it.
func TestWhatIsKnownOfAKeyOnTheWayToAListStays(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("ns/old", 5, "1")
		f.overlay.Doubt("ns/")
		f.server["ns/a"] = item{Key: "ns/a", Revision: 55, Value: thing{uid: "4"}}
		f.serverAt(60)
		go func() { // during the question
			time.Sleep(time.Second / 2)
			f.overlay.Note(f.gone("ns/a", 51, "3"))
		}()
		f.Expect(f.keys("ns/")).To(BeEmpty(), "the list may be older than the deletion")
		f.overlay.Note(entry{Key: "ns/b", Outcome: ownwrites.Unknown})
		f.server["ns/b"] = item{Key: "ns/b", Revision: 50, Value: thing{uid: "5"}}
		f.shows("ns/b", "5", 50)
		f.watch("ns/b", 50, "5")
		f.watch("ns/a", 51, "3")
		f.watch("ns/a", 52, "")
		time.Sleep(time.Second)
		f.watch("ns/a", 55, "4")
		for range 2 {
			f.shows("ns/a", "4", 55)
			f.shows("ns/b", "5", 50)
			f.Expect(f.keys("ns/")).To(ConsistOf("ns/a", "ns/b"))
			time.Sleep(time.Second)
		}
		f.engine.Bookmark(60)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// Nobody reads: then the server is asked for its revision alone.
func TestADoubtEndsByItself(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		for n := range 100 {
			f.overlay.Doubt(fmt.Sprint("ns", n, "/"))
		}
		entries, _ := f.overlay.Size()
		f.Expect(entries).To(BeNumerically("<=", 16))
		f.Expect(f.overlay.Pending(1)).To(ConsistOf(HaveField("Outcome", ownwrites.Unknown)))
		f.serverAt(50)
		time.Sleep(15 * time.Second)
		f.engine.Bookmark(50)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
		lists, asked := f.requests()
		f.Expect([]int{lists, asked}).To(Equal([]int{0, 1}))
		f.Expect(f.ended).To(BeEmpty())

		f.fails = ownwrites.ErrNoRevision
		f.overlay.Doubt("ns/")
		time.Sleep(6 * time.Minute)
		f.Expect(f.overlay.Load()).To(BeNil())
		f.Expect(f.ended).To(HaveLen(1), "nothing has said how far the server is")
	})
}

// After a restore the revision of the server says nothing of a state of before.
func TestADoubtBeforeARestore(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("ns/a", 500, "1")
		f.overlay.Doubt("ns/")
		f.serverAt(42)
		f.shows("ns/a", "", 0)
		f.overlay.Reset()
		f.shows("ns/a", "", 0)
		f.engine.Restore([]item{{Key: "ns/b", Revision: 40, Value: thing{uid: "2"}}}, 43)
		f.overlay.Listed(0)
		f.shows("ns/b", "2", 40)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// The list that has answered a doubt is newer than the one that the watch begins with after a restore. On the way
// there what the list has is shown.
func TestWhatAListHasIsShownAfterARestore(t *testing.T) {
	for name, told := range map[string]bool{"the watch tells of it": true, "the answer alone tells of it": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("ns/a", 90, "1")
				f.engine.Bookmark(100)
				f.overlay.Doubt("ns/")
				if told {
					f.overlay.Reset()
				}
				f.server["ns/a"] = item{Key: "ns/a", Revision: 20, Value: thing{uid: "1"}}
				f.serverAt(40)
				f.Expect(f.keys("ns/")).To(ConsistOf("ns/a"))
				f.engine.Restore([]item{{Key: "ns/a", Revision: 20, Value: thing{uid: "1"}}, {Key: "ns/brief", Revision: 30, Value: thing{uid: "2"}}}, 30)
				f.overlay.Listed(0)
				for range 3 {
					f.Expect(f.keys("ns/")).To(ConsistOf("ns/a"))
					f.shows("ns/a", "1", 20)
					time.Sleep(10 * time.Second)
				}
				f.watch("ns/brief", 35, "")
				f.engine.Bookmark(40)
				f.Expect(f.keys("ns/")).To(ConsistOf("ns/a"))
				time.Sleep(time.Second)
				f.Expect(f.overlay.Load()).To(BeNil())
			})
		})
	}
}

// The watch has begun anew, and not after a restore: what the list has denied is not shown on the way to it.
func TestWhatAListHasDeniedIsNotShownAfterAResetThatWasNone(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("ns/a", 90, "1")
		f.engine.Bookmark(100)
		f.overlay.Doubt("ns/")
		f.overlay.Reset()
		f.server["ns/a"] = item{Key: "ns/a", Revision: 90, Value: thing{uid: "1"}}
		f.serverAt(120)
		f.Expect(f.keys("ns/")).To(ConsistOf("ns/a"))
		f.engine.Replace([]item{{Key: "ns/a", Revision: 90, Value: thing{uid: "1"}}, {Key: "ns/brief", Revision: 105, Value: thing{uid: "2"}}}, 110)
		f.overlay.Listed(0)
		for range 2 {
			f.Expect(f.keys("ns/")).To(ConsistOf("ns/a"))
			f.shows("ns/brief", "", 0)
			f.shows("ns/a", "1", 90)
			time.Sleep(time.Second)
		}
		f.engine.Replace([]item{{Key: "ns/a", Revision: 90, Value: thing{uid: "1"}}}, 120)
		f.shows("ns/a", "1", 90)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}
