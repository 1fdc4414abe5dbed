// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// newInterrupted returns an engine that, each time it asks for the values of an object,
// calls the next of the functions that are put into the list; those call the engine, so
// it must not hold its lock then.
func newInterrupted() (*engine, *[]func()) {
	var interruptions []func()
	return watchcache.New[thing, string](watchcache.Options[thing]{Values: func(value thing, name string, yield func(string)) {
		words(value, name, yield)
		if len(interruptions) > 0 {
			interrupt := interruptions[0]
			interruptions = interruptions[1:]
			interrupt()
		}
	}}), &interruptions
}

// To index all objects takes long: nobody waits for it, and nothing is missed.
func TestTheEngineCanBeReadAndWrittenWhileAnIndexIsBuilt(t *testing.T) {
	g := NewWithT(t)
	e, interruptions := newInterrupted()
	e.Apply(put("a", 1, "x"), put("b", 2, "y"), put("c", 3, "z"), put("d", 4, "x"))
	*interruptions = []func(){
		func() {
			e.Apply(put("a", 5, "w x"), remove("b", 6), put("bb", 7, "x"), put("gone", 8, "x"), remove("gone", 9))
		},
		func() { g.Expect(e.Snapshot().Len()).To(Equal(4)) },
		func() { e.Apply(put("b", 10, "x y"), remove("d", 11), put("d", 12, "x")) },
	}
	e.AddIndex("words")
	g.Expect(*interruptions).To(BeEmpty())
	g.Expect(e.Check()).To(Succeed())
	g.Expect(slices.Collect(e.Snapshot().Index("words").Keys("x", ""))).To(Equal([]string{"a", "b", "bb", "d"}))
	e.Apply(put("a", 13, "v"))
	g.Expect(e.Check()).To(Succeed())
}

func TestAnIndexIsOfTheStateThatReplacesAnother(t *testing.T) {
	g := NewWithT(t)
	e, interruptions := newInterrupted()
	e.Apply(put("a", 1, "x"))
	replace := func() { e.Replace([]item{{Key: "b", Revision: e.Revision() + 1, Value: thing{"y"}}}, e.Revision()+1) }
	*interruptions = []func(){replace, replace}
	e.AddIndex("words")
	g.Expect(*interruptions).To(BeEmpty())
	g.Expect(e.Check()).To(Succeed())
	g.Expect(slices.Collect(e.Snapshot().Index("words").Values())).To(Equal([]string{"y"}))

	// The other way round: nobody waits for a Replace that makes its indexes.
	*interruptions = []func(){func() {
		e.AddIndex("others")
		e.Apply(put("lost", 99, "z"))
	}}
	e.Replace([]item{{Key: "c", Revision: 100, Value: thing{"v w"}}}, 100)
	g.Expect(*interruptions).To(BeEmpty())
	g.Expect(e.Check()).To(Succeed())
	g.Expect(slices.Collect(e.Snapshot().Index("others").Values())).To(Equal([]string{"v", "w"}))
}

// A state that is replaced again and again must not keep an index from being added.
func TestAnIndexIsAddedHoweverOftenTheStateIsReplaced(t *testing.T) {
	g := NewWithT(t)
	replaced := 0
	var e *engine
	e = watchcache.New[thing, string](watchcache.Options[thing]{Values: func(_ thing, name string, yield func(string)) {
		yield(name)
		// Then it is built with the lock held.
		if name == "added" && replaced < watchcache.OffLockAttempts {
			replaced++
			e.Replace([]item{{Key: "a"}}, uint64(replaced))
		}
	}})
	e.Replace([]item{{Key: "a"}}, 0)
	e.AddIndex("added")
	g.Expect(replaced).To(Equal(watchcache.OffLockAttempts))
	g.Expect(e.Check()).To(Succeed())
	g.Expect(e.Snapshot().Index("added").Len()).To(Equal(1))
}
