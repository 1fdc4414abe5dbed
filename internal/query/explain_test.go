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
	indexed, whole := 0, 0
	for range 20 {
		f := newFixture(t, numbered(random.IntN(400))...)
		for range 20 {
			q := randomQuery(t, random, f)
			q.Limit = 0
			state := f.engine.Snapshot()
			e := query.Explain(state, q)
			found, err := query.Find(state, q)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.Looked).To(Equal(e.Candidates), "seed %d: %+v", seed, e)
			g.Expect(found.Index).To(Equal(e.Index))
			if e.Index != "" {
				indexed++
			}
			if e.Whole {
				whole++
				g.Expect(found.Items).To(HaveLen(e.Candidates), "seed %d: %+v", seed, e)
			}
		}
	}
	g.Expect(min(indexed, whole)).To(BeNumerically(">", 0), "of %d and %d queries", indexed, whole)
}
