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
		} else if _, there := set.Get(state, item.Key); there {
			keys = append(keys, item.Key)
		}
	}
	if set != nil {
		for item, shown := range set.Over(state, prefix, "") {
			if _, there := state.Get(item.Key); shown && !there {
				keys = append(keys, item.Key)
			}
		}
	}
	return keys
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

// The answer to a question of before says nothing of a later write.
func TestADoubtThatComesDuringAQuestion(t *testing.T) {
	for name, read := range map[string]func(*fixture){
		"for a key":  func(f *fixture) { f.shows("ns/a", "", 0) },
		"for a list": func(f *fixture) { f.Expect(f.keys("ns/")).To(BeEmpty()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("ns/a", 5, "1")
				f.overlay.Doubt("ns/")
				f.serverAt(40)
				go func() {
					time.Sleep(time.Second / 2)
					f.overlay.Doubt("ns/")
				}()
				read(f)
				lists, asked := f.requests()
				f.Expect(lists+asked).To(Equal(2), "the first answer is not enough")
			})
		})
	}
}

// The watch passes what the program wrote before, while the server is asked what came after it.
func TestTheWatchPassesAnEntryDuringAQuestion(t *testing.T) {
	for name, read := range map[string]func(*fixture){
		"for a key":  func(f *fixture) { f.shows("ns/a", "", 0) },
		"for a list": func(f *fixture) { f.Expect(f.keys("ns/")).To(BeEmpty()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("ns/a", 9, "1")
				f.overlay.Note(f.shown("ns/a", 10, "1"))
				f.overlay.Doubt("ns/")
				f.serverAt(12) // which has no ns/a
				go func() {
					time.Sleep(time.Second / 2)
					f.watch("ns/a", 10, "1")
				}()
				read(f)
				read(f)
			})
		})
	}
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
