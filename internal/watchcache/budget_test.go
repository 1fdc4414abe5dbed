// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// sharing returns engines whose histories share a budget.
func sharing(n int, budget *watchcache.Budget) (engines []*engine) {
	for range n {
		e, _ := newHistory(history{MinAge: time.Minute, Size: size, Budget: budget})
		engines = append(engines, e)
	}
	return engines
}

// rewrite writes an object of ten bytes so often.
func rewrite(e *engine, times int) {
	for range times {
		e.Apply(put("a", e.Revision()+1, "0123456789"))
	}
}

func TestHistoriesShareABudget(t *testing.T) {
	g := NewWithT(t)
	budget := watchcache.NewBudget(1200)
	engines := sharing(3, budget)
	rewrite(engines[0], 1000)
	g.Expect(budget.Held()).To(Equal(600), "one alone has half")
	rewrite(engines[1], 1000)
	g.Expect(budget.Held()).To(Equal(900), "the second one has half of the rest, though the first one writes no more")
	for range 10 {
		for _, e := range engines {
			rewrite(e, 1)
			e.Bookmark(e.Revision() + 1)
		}
	}
	rewrite(engines[2], 1000)
	for range 10 {
		for _, e := range engines {
			e.Bookmark(e.Revision() + 1)
			rewrite(e, 1)
		}
	}
	g.Expect(budget.Held()).To(BeNumerically("~", 900, 30), "all have the same part")
	for _, e := range engines {
		_, events := e.Ring()
		g.Expect(events).To(BeNumerically("~", 30, 3))
	}

	engines[0].Forget()
	engines[1].Forget()
	g.Expect(budget.Held()).To(BeNumerically("~", 300, 30))
	g.Expect(engines[0].Holds(engines[0].Snapshot().Position()-1)).To(BeFalse(), "what is forgotten is not read")
	rewrite(engines[2], 1000)
	g.Expect(budget.Held()).To(Equal(600))
	engines[2].Replace(nil, 1)
	g.Expect(budget.Held()).To(BeZero())
}

// TestABudgetIsKept writes at random into engines that come and go.
func TestABudgetIsKept(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const bytes, largest = 5000, 400
	g := NewWithT(t)
	budget := watchcache.NewBudget(bytes)
	engines := sharing(8, budget)
	for range 20_000 {
		n := random.IntN(len(engines))
		e := engines[n]
		switch key, revision := fmt.Sprint(random.IntN(5)), e.Revision()+1; random.IntN(100) {
		case 0:
			e.Forget()
			engines[n] = sharing(1, budget)[0]
		case 1:
			e.Replace(nil, revision)
		case 2:
			e.Bookmark(revision)
		case 3, 4, 5, 6, 7:
			e.Apply(remove(key, revision))
		default:
			e.Apply(put(key, revision, strings.Repeat("x", random.IntN(largest))))
		}
		g.Expect(engines[n].Check()).To(Succeed())
		// Each may have its newest event, whatever the others hold.
		g.Expect(budget.Held()).To(BeNumerically("<=", bytes+len(engines)*largest))
	}
	for _, e := range engines {
		e.Forget()
	}
	g.Expect(budget.Held()).To(BeZero())
}
