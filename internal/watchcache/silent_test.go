// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

func silent(c change) change {
	c.Silent = true
	return c
}

func TestSilentChangesAreSeenAndNotTold(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(4)
	s := e.MergingCursor(nil)
	defer s.Close()
	e.Apply(silent(put("first", 1, "")))
	g.Expect(slices.Collect(next(g, s).Diff.Events())).To(HaveLen(1), "it is in the state")
	e.Apply(put("a", 2, ""), silent(remove("a", 3)), silent(put("b", 4, "silent")), put("b", 5, ""))
	g.Expect(next(g, s).Events).To(Equal([]event{
		{Type: watchcache.Added, Position: 1, Item: item{Key: "a", Revision: 2}},
		{Type: watchcache.Updated, Position: 4, Item: item{Key: "b", Revision: 5}, Previous: item{Key: "b", Revision: 4, Value: thing{"silent"}}},
	}))
	e.Apply(remove("a", 6), silent(put("b", 7, "")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Next(ctx)
	g.Expect(err).To(MatchError(context.Canceled), "there is nothing to tell")
	g.Expect(s.State().Revision()).To(Equal(uint64(7)))
	g.Expect(e.Check()).To(Succeed())
}

// A lagging cursor goes on where it stopped: the silent changes since then are neither undone in
// part nor left out.
func TestALaggingCursorIsToldOfSilentChanges(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(4)
	s := e.MergingCursor(nil)
	defer s.Close()
	e.Apply(put("updated", 1, "x"), put("deleted", 2, "x"))
	next(g, s)
	e.Apply(silent(put("updated", 3, "y")), silent(remove("deleted", 4)), silent(put("added", 5, "")))
	for revision := uint64(6); revision < 20; revision++ {
		e.Apply(put("other", revision, ""))
	}
	g.Expect(slices.Collect(next(g, s).Diff.Events())).To(Equal([]event{
		{Type: watchcache.Added, Item: item{Key: "added", Revision: 5}},
		{Type: watchcache.Deleted, Item: item{Key: "deleted", Revision: 19}, Previous: item{Key: "deleted", Revision: 2, Value: thing{"x"}}},
		{Type: watchcache.Added, Item: item{Key: "other", Revision: 19}},
		{Type: watchcache.Updated, Item: item{Key: "updated", Revision: 3, Value: thing{"y"}}, Previous: item{Key: "updated", Revision: 1, Value: thing{"x"}}},
	}))
}

// TestDiffsBeginWithWhatWasSeen has a random writer, silent now and then, and a reader of
// irregular pace: each Diff must lead from exactly the state of its last reading.
func TestDiffsBeginWithWhatWasSeen(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	g := NewWithT(t)
	e := newEngine(8)
	s := e.MergingCursor(nil)
	defer s.Close()
	state, seen, diffs := map[string]item{}, map[string]item{}, 0
	for revision := uint64(1); revision <= 5000; revision++ {
		c := put(fmt.Sprint("k", random.IntN(6)), revision, fmt.Sprint("w", revision))
		if random.IntN(3) == 0 {
			c = remove(c.Item.Key, revision)
		}
		c.Silent = random.IntN(3) == 0
		e.Apply(c)
		if delete(state, c.Item.Key); !c.Deleted {
			state[c.Item.Key] = c.Item
		}
		if random.IntN(200) == 0 {
			e.Replace(slices.Collect(maps.Values(state)), revision)
		}
		if random.IntN(6) > 0 {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if batch, err := s.Next(ctx); err == nil && batch.Diff != nil {
			from := map[string]item{}
			for i := range batch.Diff.From.Items("", "") {
				from[i.Key] = i
			}
			g.Expect(from).To(Equal(seen), "revision %d", revision)
			diffs++
		}
		seen = maps.Clone(state)
		g.Expect(e.Check()).To(Succeed())
	}
	g.Expect(diffs).To(BeNumerically(">", 50))
}
