// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package postings_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// often is a share with which a single query is enough to have an index built.
const often = postings.BuildAfter + 1

func TestIndexesComeAndGoOnDemand(t *testing.T) {
	g := NewWithT(t)
	clock := testclock.NewFakePassiveClock(time.Now())
	engine := watchcache.New[string, struct{}](watchcache.Options[string]{
		Values: func(value, _ string, yield func(string)) { yield(value) },
	})
	engine.AddIndex("fixed")
	indexes := postings.NewOnDemand(engine, clock, "fixed")
	has := func(name string) bool { return engine.Snapshot().Index(name) != nil }

	indexes.Ask(often, "fixed", "a")
	g.Expect(indexes.Asked()).To(ConsistOf("a"), "a fixed one is there anyway")
	g.Expect(has("a")).To(BeTrue())

	clock.SetTime(clock.Now().Add(postings.ColdAfter / 2))
	indexes.Ask(often, "b")
	clock.SetTime(clock.Now().Add(postings.ColdAfter / 2))
	indexes.Ask(0)
	g.Expect(indexes.Asked()).To(ConsistOf("b"), "nobody has asked for a for long")
	g.Expect(has("a")).To(BeFalse())
	g.Expect(has("fixed")).To(BeTrue())

	for n := range postings.MaxOnDemand {
		clock.SetTime(clock.Now().Add(time.Second))
		indexes.Ask(often, fmt.Sprint(n))
	}
	g.Expect(indexes.Asked()).To(And(HaveLen(postings.MaxOnDemand), Not(ContainElement("b"))), "b was asked for longest ago")
	g.Expect(has("b")).To(BeFalse())
}

// TestAnIndexIsBuiltWhileNobodyWaits has one query build an index, and another one not
// wait for it.
func TestAnIndexIsBuiltWhileNobodyWaits(t *testing.T) {
	g := NewWithT(t)
	building, proceed := make(chan struct{}), make(chan struct{})
	engine := watchcache.New[string, struct{}](watchcache.Options[string]{
		Values: func(_, name string, yield func(string)) {
			if name == "slow" {
				close(building)
				<-proceed
			}
			yield("value")
		},
	})
	engine.Apply(watchcache.Change[string, struct{}]{Item: watchcache.Item[string]{Key: "key", Revision: 1, Value: "object"}})
	indexes := postings.NewOnDemand(engine, testclock.NewFakePassiveClock(time.Now()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		indexes.Ask(often, "slow")
	}()
	<-building
	indexes.Ask(often, "slow", "quick")
	g.Expect(engine.Snapshot().Index("quick")).NotTo(BeNil())
	g.Expect(engine.Snapshot().Index("slow")).To(BeNil())
	close(proceed)
	<-done
	g.Expect(engine.Snapshot().Index("slow")).NotTo(BeNil())
}

// TestAnIndexIsBuiltWhenItPays asks for indexes with several shares, and counts how often it takes.
func TestAnIndexIsBuiltWhenItPays(t *testing.T) {
	for share, want := range map[float64]int{1: 3, 0.5: 5, 0.01: 201, often: 1} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			g := NewWithT(t)
			clock := testclock.NewFakePassiveClock(time.Now())
			engine := watchcache.New[string, struct{}](watchcache.Options[string]{Values: func(string, string, func(string)) {}})
			indexes := postings.NewOnDemand(engine, clock)
			asks := func(name string) (n int) {
				for n = 1; n < 1000; n++ {
					indexes.Ask(share, name)
					if engine.Snapshot().Index(name) != nil {
						break
					}
					g.Expect(indexes.Asked()).NotTo(ContainElement(name))
					clock.SetTime(clock.Now().Add(postings.ColdAfter / 1000))
				}
				return n
			}
			g.Expect(asks("a")).To(BeNumerically("~", want, want/100))

			for range want / 2 {
				indexes.Ask(share, "b")
			}
			clock.SetTime(clock.Now().Add(postings.ColdAfter))
			g.Expect(asks("b")).To(BeNumerically("~", want, want/100), "what was asked long ago does not count")

			for range want / 2 {
				indexes.Ask(share, "c")
			}
			if want > 1 {
				for n := range 1000 {
					indexes.Ask(0.001, fmt.Sprint("other", n))
				}
				g.Expect(asks("c")).To(BeNumerically("~", want, want/100), "there is a bound to what is waiting")
			}
		})
	}
}
