// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"fmt"
	"strings"
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
	for i := range 100 {
		e.Apply(put(fmt.Sprint("other", i), 2, "o"))
	}
	calls := map[string]int{}
	e.Rewrite(func(i item) thing {
		if calls[i.Key]++; len(calls) == 1 {
			if calls[i.Key] == 1 {
				e.Apply(put("a", 3, "z"), remove("b", 4), put("c", 5, "w"))
			}
		}
		return thing{i.Value.words + "!"}
	})
	s := e.Snapshot()
	g.Expect(s.Len()).To(Equal(102))
	for key, want := range map[string]item{"a": {Key: "a", Revision: 3, Value: thing{"z!"}}, "c": {Key: "c", Revision: 5, Value: thing{"w!"}}} {
		got, _ := s.Get(key)
		g.Expect(got).To(Equal(want))
	}
	for key, n := range calls {
		if strings.HasPrefix(key, "other") {
			g.Expect(n).To(Equal(1), "%q was not written, and writers wait for what is done again", key)
		}
	}
}

// If two rewrites overlap, the last to end has the last word, and loses nothing.
func TestARewriteTakesInAnotherOne(t *testing.T) {
	g := NewWithT(t)
	e := newEngine(0)
	e.Apply(put("a", 1, "x"), put("b", 2, "y"))
	other := false
	e.Rewrite(func(i item) thing {
		if !other {
			other = true
			e.Rewrite(func(i item) thing { return thing{i.Value.words + "?"} })
		}
		return thing{i.Value.words + "!"}
	})
	for key, want := range map[string]string{"a": "x?!", "b": "y?!"} {
		got, _ := e.Get(key)
		g.Expect(got.Value.words).To(Equal(want))
	}
}
