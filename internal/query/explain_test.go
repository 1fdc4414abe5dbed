// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package query_test

import (
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/query"
)

// TestExplainAgreesWithFind asks random queries, and counts what Find looks at.
func TestExplainAgreesWithFind(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	g := NewWithT(t)
	ways := map[string]int{}
	for range 20 {
		f := newFixture(t, numbered(random.IntN(400))...)
		for range 20 {
			q := randomQuery(t, random, f)
			q.Limit = 0
			state := f.engine.Snapshot()
			e := query.Explain(state, q)
			found, err := query.Find(state, q)
			g.Expect(err).NotTo(HaveOccurred())
			ways[e.By]++
			g.Expect(found.Looked).To(Equal(e.Candidates), "seed %d: %+v", seed, e)
			g.Expect(found.Index).To(Equal(e.Index))
			if e.Whole {
				g.Expect(found.Items).To(HaveLen(e.Candidates), "seed %d: %+v", seed, e)
			}
		}
	}
	for _, by := range []string{query.ByKey, query.ByIndex, query.ByScan} {
		g.Expect(ways[by]).To(BeNumerically(">", 0), "no query was answered by %s", by)
	}
}
