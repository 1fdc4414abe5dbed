// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/index"
)

func TestIndexesComeAndGoOnDemand(t *testing.T) {
	g := NewWithT(t)
	clock := testclock.NewFakePassiveClock(time.Now())
	engine := watchcache.New[string, struct{}](watchcache.Options[string]{
		Values: func(value, _ string, yield func(string)) { yield(value) },
	})
	engine.AddIndex("fixed")
	indexes := index.NewOnDemand(engine, clock, "fixed")
	has := func(name string) bool { return engine.Snapshot().Index(name) != nil }

	indexes.Ask("fixed", "a")
	g.Expect(indexes.Asked()).To(ConsistOf("a"), "a fixed one is there anyway")
	g.Expect(has("a")).To(BeTrue())

	clock.SetTime(clock.Now().Add(index.ColdAfter / 2))
	indexes.Ask("b")
	clock.SetTime(clock.Now().Add(index.ColdAfter / 2))
	indexes.Ask()
	g.Expect(indexes.Asked()).To(ConsistOf("b"), "nobody has asked for a for long")
	g.Expect(has("a")).To(BeFalse())
	g.Expect(has("fixed")).To(BeTrue())

	for n := range index.MaxOnDemand {
		clock.SetTime(clock.Now().Add(time.Second))
		indexes.Ask(fmt.Sprint(n))
	}
	g.Expect(indexes.Asked()).To(And(HaveLen(index.MaxOnDemand), Not(ContainElement("b"))), "b was asked for longest ago")
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
	indexes := index.NewOnDemand(engine, testclock.NewFakePassiveClock(time.Now()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		indexes.Ask("slow")
	}()
	<-building
	indexes.Ask("slow", "quick")
	g.Expect(engine.Snapshot().Index("quick")).NotTo(BeNil())
	g.Expect(engine.Snapshot().Index("slow")).To(BeNil())
	close(proceed)
	<-done
	g.Expect(engine.Snapshot().Index("slow")).NotTo(BeNil())
}
