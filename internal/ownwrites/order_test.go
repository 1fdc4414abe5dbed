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

// Answers come in any order. What a read has shown, or what was written before it, is not taken back by an older one.

func (f *fixture) unknown(key string) { f.overlay.Note(entry{Key: key, Outcome: ownwrites.Unknown}) }

func (f *fixture) changed(key string, revision uint64) {
	f.overlay.Note(entry{Key: key, Outcome: ownwrites.Changed, Revision: revision, UID: "1"})
}

// meanwhile begins a read, and returns what waits for its end and returns the revision that it has shown.
func (f *fixture) meanwhile(key string) (ended func() uint64) {
	shown := make(chan uint64, 1)
	go func() {
		_, revision := f.read(key)
		shown <- revision
	}()
	time.Sleep(500 * time.Millisecond)
	return func() uint64 { return <-shown }
}

// The answer to a question of before a deletion comes while a list of after it is under way.
func TestAnAnswerIsAsOldAsItsQuestion(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serves("ns/a", 10, "1")
		f.unknown("ns/a")
		f.routes = map[string]route{"ns/a": {0, time.Second}, "list ns/": {0, 2 * time.Second}}
		ended := f.meanwhile("ns/a")
		f.serves("ns/a", 20, "")
		f.overlay.Doubt("ns/")
		f.Expect(f.keys("ns/")).To(BeEmpty())
		f.shows("ns/a", "", 0)
		ended()
	})
}

// The answer comes after the list, which has no entry for an object that nobody knew.
func TestAnAnswerThatComesAfterANewerList(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serves("ns/a", 10, "1")
		f.overlay.Doubt("ns/")
		f.routes = map[string]route{"ns/a": {0, 3 * time.Second}}
		ended := f.meanwhile("ns/a")
		f.serves("ns/a", 20, "")
		f.overlay.Doubt("ns/")
		f.Expect(f.keys("ns/")).To(BeEmpty())
		ended()
		f.Expect(f.keys("ns/")).To(BeEmpty())
		f.shows("ns/a", "", 0)
	})
}

// A list is under way, and that of a namespace, which is older, comes before it.
func TestAListDeniesWhatAnOlderOneHasBroughtMeanwhile(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serves("ns/a", 10, "1")
		f.overlay.Doubt("ns/")
		f.routes = map[string]route{"list ns/": {0, time.Second}, "list ": {0, 2 * time.Second}}
		go f.keys("ns/")
		time.Sleep(500 * time.Millisecond)
		f.serves("ns/a", 20, "")
		f.overlay.Doubt("")
		f.Expect(f.keys("")).To(BeEmpty())
		f.shows("ns/a", "", 0)
	})
}

// A later doubt was answered at an older revision than a list: what the list denies is denied until the state is there.
func TestADoubtStaysUntilTheStateIsAsFarAsItsLists(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serverAt(10)
		f.overlay.Doubt("ns/")
		f.routes = map[string]route{"list ns/": {2 * time.Second, 0}}
		done := make(chan []string, 1)
		go func() { done <- f.keys("ns/") }()
		time.Sleep(500 * time.Millisecond)
		f.overlay.Doubt("ns/")
		f.serverAt(30)
		f.shows("ns/other", "", 0)
		f.serves("ns/brief", 33, "2")
		f.serves("ns/brief", 38, "")
		f.serverAt(40)
		f.Expect(<-done).To(BeEmpty())
		f.engine.Bookmark(30)
		time.Sleep(time.Second)
		f.watch("ns/brief", 33, "2")
		f.Expect(f.keys("ns/")).To(BeEmpty())
		f.watch("ns/brief", 38, "")
		f.engine.Bookmark(40)
		time.Sleep(time.Second)
		f.Expect(f.overlay.Load()).To(BeNil())
	})
}

// A read shows an answer that is newer than the last write, of which the content is not known.
func TestWhatAReadHasShownInThePlaceOfALaterWriteStays(t *testing.T) {
	for name, write := range map[string]func(f *fixture, revision uint64){
		"of a known revision":    func(f *fixture, revision uint64) { f.changed("ns/a", revision) },
		"of an unknown revision": func(f *fixture, _ uint64) { f.unknown("ns/a") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("ns/a", 6, "1")
				f.unknown("ns/z") // for it the server is asked how far it is, ten seconds later
				time.Sleep(9400 * time.Millisecond)
				f.serves("ns/a", 10, "1")
				write(f, 10)
				f.slow = time.Millisecond
				f.routes = map[string]route{"ns/a": {3 * time.Second, 0}}
				ended := f.meanwhile("ns/a")
				f.serves("ns/a", 20, "1")
				write(f, 20)
				time.Sleep(time.Second)
				f.serves("ns/a", 30, "1")
				f.Expect(ended()).To(BeEquivalentTo(30))
				f.watch("ns/a", 10, "1")
				f.watch("ns/a", 20, "1")
				time.Sleep(time.Second)
				f.shows("ns/a", "1", 30)
				f.watch("ns/a", 30, "1")
				f.engine.Bookmark(40)
				f.shows("ns/a", "1", 30)
			})
		})
	}
}

// The response to an older write comes after an answer that has it.
func TestAResponseThatIsOlderThanWhatAReadHasShown(t *testing.T) {
	for name, note := range map[string]func(*fixture){
		"with the object":    func(f *fixture) { f.overlay.Note(f.shown("ns/a", 25, "1")) },
		"without the object": func(f *fixture) { f.changed("ns/a", 25) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("ns/a", 6, "1")
				f.serves("ns/a", 10, "1")
				f.changed("ns/a", 10)
				f.routes = map[string]route{"ns/a": {time.Second, 0}}
				ended := f.meanwhile("ns/a")
				f.serves("ns/a", 20, "1")
				f.changed("ns/a", 20)
				f.serves("ns/a", 30, "1")
				f.Expect(ended()).To(BeEquivalentTo(30))
				note(f)
				f.watch("ns/a", 25, "1")
				f.shows("ns/a", "1", 30)
			})
		})
	}
}

// An object that was deleted with others had changed meanwhile: so the server is asked, and tells of a new one.
func TestADeletionWithOthersDoesNotHideANewObjectThatAReadHasShown(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.overlay.Note(f.deletedWithOthers("ns/a", 10, "1"))
		f.watch("ns/a", 12, "1")
		f.routes = map[string]route{"ns/a": {time.Second, 0}}
		ended := f.meanwhile("ns/a")
		f.overlay.Note(f.deletedWithOthers("ns/a", 11, "1"))
		f.serves("ns/a", 20, "2")
		f.Expect(ended()).To(BeEquivalentTo(20))
		f.watch("ns/a", 15, "")
		f.shows("ns/a", "2", 20)
	})
}

// A list is older than the answer that a read has shown, and comes after it.
func TestAListThatIsOlderThanWhatAReadHasShown(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serves("ns/a", 10, "1")
		f.unknown("ns/a")
		f.routes = map[string]route{"ns/a": {2 * time.Second, 0}, "list ns/": {500 * time.Millisecond, 2 * time.Second}}
		ended := f.meanwhile("ns/a")
		f.serves("ns/a", 20, "1")
		f.unknown("ns/a")
		for n := range 9 { // so many that the server is asked for a list
			f.unknown(fmt.Sprint("ns/", n))
		}
		listed := make(chan []string, 1)
		go func() { listed <- f.keys("ns/") }()
		time.Sleep(750 * time.Millisecond)
		f.serves("ns/a", 30, "1")
		f.Expect(ended()).To(BeEquivalentTo(30))
		late := f.meanwhile("ns/a")
		f.Expect(<-listed).To(ConsistOf("ns/a"))
		f.Expect(late()).To(BeEquivalentTo(30))
		f.shows("ns/a", "1", 30)
	})
}

// aListAndAnAnswer has a list of a doubt under way, which began before an answer shows an object of revision 97. It returns
// what waits for the list, and returns the revision that it has shown.
func (f *fixture) aListAndAnAnswer() (listed func() uint64) {
	f.engine.Bookmark(96)
	f.serverAt(96)
	f.routes = map[string]route{"list ns/": {there: 800 * time.Millisecond}, "ns/a": {there: 10 * time.Millisecond}}
	f.overlay.Doubt("ns/")
	shown := make(chan uint64, 1)
	go func() {
		set, state, err := f.overlay.Read(f.ctx(), "ns/", "")
		f.Expect(err).NotTo(HaveOccurred())
		found, _, _ := set.Find(state, "ns/a")
		shown <- found.Revision
	}()
	time.Sleep(100 * time.Millisecond)
	f.serves("ns/a", 97, "1")
	f.unknown("ns/a")
	f.shows("ns/a", "1", 97)
	return func() uint64 { return <-shown }
}

// There is no room for the object of the answer any more when the list has brought the next one.
func TestAnObjectThatMakesRoomKeepsWhatAListHasShown(t *testing.T) {
	inBubble(t, -1, func(f *fixture) {
		listed := f.aListAndAnAnswer()
		f.serves("ns/b", 98, "2")
		f.serves("ns/a", 99, "1")
		revision := listed()
		f.watch("ns/a", 97, "1")
		_, got := f.read("ns/a")
		f.Expect(got).To(BeNumerically(">=", revision))
	})
}

// A write of unknown content, of between the answer and the list, is noted when the list has brought its object.
func TestAWriteThatIsNotedDuringAListKeepsWhatThatHasShown(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.mu.Lock()
		f.between = func() { f.changed("ns/a", 98) }
		f.mu.Unlock()
		listed := f.aListAndAnAnswer()
		f.serves("ns/a", 99, "1")
		revision := listed()
		f.watch("ns/a", 97, "1")
		f.watch("ns/a", 98, "1")
		_, got := f.read("ns/a")
		f.Expect(got).To(BeNumerically(">=", revision))
	})
}

// The answer to the deletion of an object comes before those to its creation and to the creation of the one before it.
func TestADeletionIsNotForgottenForALateAnswerOfAnotherObject(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.serves("ns/a", 41, "")
		f.overlay.Note(f.gone("ns/a", 0, "2"))
		f.overlay.Note(f.shown("ns/a", 37, "1"))
		f.overlay.Note(f.shown("ns/a", 40, "2"))
		f.shows("ns/a", "", 0)
		f.Expect(f.asked).To(Equal(1))
	})
}

// A list without an object is newer than what is shown of that, and older than an answer that reads may have shown.
func TestAListDeniesWhatIsShownThoughANewerAnswerHasCome(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("ns/a", 70, "1")
		f.serves("ns/a", 75, "1")
		f.overlay.Note(entry{Key: "ns/a", Outcome: ownwrites.Changed, Revision: 75, UID: "1"})
		f.routes = map[string]route{"ns/a": {2 * time.Second, 0}, "list ns/": {0, 2 * time.Second}}
		go f.read("ns/a")
		time.Sleep(500 * time.Millisecond)
		f.overlay.Note(f.shown("ns/a", 77, "1"))
		f.overlay.Doubt("ns/")
		time.Sleep(500 * time.Millisecond)
		f.serves("ns/a", 81, "")
		done := make(chan []string, 1)
		go func() { done <- f.keys("ns/") }()
		time.Sleep(500 * time.Millisecond)
		f.serverAt(82)
		f.Expect(<-done).To(BeEmpty())
		f.shows("ns/a", "", 0)
	})
}
