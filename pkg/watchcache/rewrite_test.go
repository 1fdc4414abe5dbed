// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

// To bring all objects into another form takes long: nobody who reads waits for it.
func TestTheEngineCanBeReadDuringARewrite(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	e.Apply(put("a", 1, "x"), put("b", 2, "y"))
	before := e.Snapshot()
	e.Rewrite(func(i item) thing {
		got, ok := e.Get(i.Key)
		g.Expect(ok).To(BeTrue())
		g.Expect(got).To(Equal(i))
		g.Expect(e.Snapshot().Len()).To(Equal(2))
		e.Bookmark(i.Revision + 10)
		return thing{i.Value.words + "!"}
	})
	b, _ := e.Get("b")
	g.Expect(b.Value.words).To(Equal("y!"))
	b, _ = before.Get("b")
	g.Expect(b.Value.words).To(Equal("y"))
	g.Expect(e.Snapshot().Revision()).To(Equal(uint64(12)))
}

// A write during a rewrite wins: what it wrote is rewritten too.
func TestARewriteTakesInWhatIsWrittenMeanwhile(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	e.Apply(put("a", 1, "x"), put("b", 2, "y"))
	wrote := false
	e.Rewrite(func(i item) thing {
		if !wrote {
			wrote = true
			e.Apply(put("a", 3, "z"), remove("b", 4), put("c", 5, "w"))
		}
		return thing{i.Value.words + "!"}
	})
	s := e.Snapshot()
	g.Expect(keys(s, "", "")).To(Equal([]string{"a", "c"}))
	for key, want := range map[string]item{"a": {Key: "a", Revision: 3, Value: thing{"z!"}}, "c": {Key: "c", Revision: 5, Value: thing{"w!"}}} {
		got, _ := s.Get(key)
		g.Expect(got).To(Equal(want))
	}
	g.Expect(s.Len()).To(Equal(2))
}
