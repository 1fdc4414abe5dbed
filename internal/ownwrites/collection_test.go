// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/ownwrites"
)

// A server deletes a collection as it has listed it. An object that has changed since may have got a
// finalizer, and stay.
func TestAnObjectThatChangedBeforeItsCollectionWasDeletedIsAskedFor(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 100, "1")
		f.overlay.Note(f.deletedWithOthers("a", 100, "1"))
		f.shows("a", "", 0)
		f.Expect(f.asked).To(BeZero(), "as long as nothing says that it stays")
		f.server["a"], f.at = item{Key: "a", Revision: 120, Value: thing{uid: "1"}}, 130
		time.Sleep(time.Second)
		f.watch("a", 110, "1") // the finalizer
		f.shows("a", "1", 120)
		f.watch("a", 120, "1") // the deletionTimestamp
		f.shows("a", "1", 120)
		f.Expect(f.asked).To(Equal(1))
		set, state, err := f.overlay.Read(f.ctx(), "", "")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(set).To(BeNil())
		f.Expect(state.Len()).To(Equal(1))
	})
}

func TestAChangedObjectOfADeletedCollectionEndsWithTheWatch(t *testing.T) {
	inBubble(t, 0, func(f *fixture) {
		f.watch("a", 110, "1") // it was quicker than the answer
		f.overlay.Note(f.deletedWithOthers("a", 100, "1"))
		go func() {
			time.Sleep(50 * time.Millisecond)
			f.watch("a", 111, "")
		}()
		set, state, err := f.overlay.Read(f.ctx(), "", "")
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(set).To(BeNil())
		f.Expect(state.Len()).To(BeZero())
		f.Expect(f.asked).To(BeZero())
	})
}

func TestAWriteBesideTheDeletionOfACollectionIsAskedFor(t *testing.T) {
	for name, notes := range map[string][]entry{
		"before": {{Key: "a", Outcome: ownwrites.Shown, Revision: 120, UID: "1"}, {Key: "a", Outcome: ownwrites.Gone, Revision: 100, UID: "1", Collection: true}},
		"after":  {{Key: "a", Outcome: ownwrites.Gone, Revision: 100, UID: "1", Collection: true}, {Key: "a", Outcome: ownwrites.Shown, Revision: 120, UID: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.server["a"], f.at = item{Key: "a", Revision: 121, Value: thing{uid: "1"}}, 130
				for _, e := range notes {
					f.overlay.Note(e)
				}
				f.shows("a", "1", 121)
				f.Expect(f.asked).To(Equal(1))
			})
		})
	}
	inBubble(t, 0, func(f *fixture) { // what was deleted by its name does not come back
		f.overlay.Note(f.gone("a", 100, "1"))
		f.overlay.Note(f.deletedWithOthers("a", 90, "1"))
		f.overlay.Note(f.shown("a", 110, "1"))
		f.shows("a", "", 0)
		f.Expect(f.asked).To(BeZero())
	})
}

// The object of a collection waits for its finalizer. Another write of it came before its deletion and after the list, and
// is answered last.
func TestAWriteBesideTheDeletionOfAnObjectThatWaits(t *testing.T) {
	for name, note := range map[string]func(*fixture){
		"with the object":    func(f *fixture) { f.overlay.Note(f.shown("a", 71, "1")) },
		"without the object": func(f *fixture) { f.changed("a", 71) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(f *fixture) {
				f.watch("a", 69, "1")
				f.overlay.Note(entry{Key: "a", Outcome: ownwrites.Leaving, Revision: 69, UID: "1"})
				note(f)
				f.watch("a", 71, "1")
				f.serves("a", 72, "1")
				f.shows("a", "1", 72)
			})
		})
	}
}
