// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package postings_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/postings"
)

// TestPostingsAgreeWithAMap compares postings, and their clones, with a map that is
// written in the same way.
func TestPostingsAgreeWithAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	g := NewWithT(t)

	type pairs map[[2]string]bool
	agree := func(p *postings.Postings, want pairs) {
		g.Expect(p.Len()).To(Equal(len(want)))
		values := map[string]bool{}
		for pair := range want {
			values[pair[0]] = true
		}
		g.Expect(slices.Collect(p.Values())).To(Equal(slices.Sorted(maps.Keys(values))))
		for v := range 6 {
			value := fmt.Sprint("v", v)
			for _, prefix := range []string{"", "a/", "b/", "none/"} {
				var keys []string
				for pair := range want {
					if pair[0] == value && strings.HasPrefix(pair[1], prefix) {
						keys = append(keys, pair[1])
					}
				}
				slices.Sort(keys)
				g.Expect(slices.Collect(p.Keys(value, prefix))).To(Equal(keys))
				for _, after := range []string{"a", "a/1", "a/11", "b/3", "b/5x", "c"} {
					behind := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key <= after })
					g.Expect(slices.Collect(p.KeysFrom(value, prefix, after+"\x00"))).To(HaveExactElements(behind), "after %q", after)
				}
				g.Expect(p.Count(value, prefix, 1000)).To(Equal(len(keys)))
				g.Expect(p.Count(value, prefix, 2)).To(Equal(min(len(keys), 2)))
			}
		}
	}

	p, want := postings.New(), pairs{}
	for range 20 {
		clone, cloned := p.Clone(), maps.Clone(want)
		for range 100 {
			value, key := fmt.Sprint("v", random.IntN(5)), fmt.Sprint([]string{"a/", "b/"}[random.IntN(2)], random.IntN(20))
			if random.IntN(3) == 0 {
				p.Remove(value, key)
				delete(want, [2]string{value, key})
			} else {
				p.Add(value, key)
				want[[2]string{value, key}] = true
			}
		}
		agree(p, want)
		agree(clone, cloned)
		built := build(want)
		agree(built, want)
		if random.IntN(2) == 0 {
			p = built // which can be written to
		}
	}
}

// build returns postings of all pairs at once.
func build(all map[[2]string]bool) *postings.Postings {
	var b postings.Builder
	ordered := slices.SortedFunc(maps.Keys(all), func(p, q [2]string) int { return strings.Compare(p[1], q[1]) })
	for _, pair := range ordered {
		b.Add(pair[0], pair[1])
		b.Add(pair[0], pair[1]) // of an object that has a value twice
	}
	return b.Postings()
}

func TestLongListsAreCounted(t *testing.T) {
	g := NewWithT(t)
	p := postings.New()
	for i := range 3000 {
		p.Add(fmt.Sprint("v", i%3), fmt.Sprintf("%c/%04d", 'a'+i%2, i))
	}
	for value, want := range map[string]int{"v0": 1000, "v1": 1000, "v2": 1000, "v3": 0, "v": 0} {
		g.Expect(p.Count(value, "", 1e6)).To(Equal(want), value)
		g.Expect(p.Count(value, "", 600)).To(Equal(min(want, 600)))
		for prefix, want := range map[string]int{"a/": want / 2, "b/": want / 2, "b/2": want / 6, "c/": 0, "": want} {
			g.Expect(p.Count(value, prefix, 1e6)).To(BeNumerically("~", want, 1), "%s %s", value, prefix)
			g.Expect(p.Count(value, prefix, 1e6)).To(Equal(len(slices.Collect(p.Keys(value, prefix)))), "%s %s", value, prefix)
		}
	}
}

// TestBytesAreNearTheTruth compares the estimate with what the heap grows by.
func TestBytesAreNearTheTruth(t *testing.T) {
	const pairs = 20_000
	heap := func() float64 {
		var m runtime.MemStats
		// Interned values go in the background, some collections after their holders.
		for same, last := 0, uint64(0); same < 3; last = m.HeapAlloc {
			runtime.GC()
			runtime.ReadMemStats(&m)
			if same++; m.HeapAlloc+4096 < last {
				same = 0
			}
		}
		return float64(m.HeapAlloc)
	}
	all := []*postings.Postings{} // nothing goes before the end, so that all growth is that of the newest
	keys := make([]string, pairs)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d\x00name-%05d", i/500, i)
	}
	for _, values := range []int{1, 10, 1000, pairs} {
		for _, order := range [][]int{nil, rand.Perm(pairs)} {
			word := fmt.Sprint(rand.Uint64()) // values that no run before this one has interned
			before, p := heap(), postings.New()
			for i := range pairs {
				if order != nil {
					i = order[i]
				}
				p.Add(fmt.Sprint(word, i%values), keys[i])
			}
			grown := heap() - before
			t.Logf("%d values: the heap grew by %.0f bytes a pair, the estimate is %d", values, grown/pairs, p.Bytes()/pairs)
			NewWithT(t).Expect(float64(p.Bytes())).To(And(BeNumerically(">", grown/1.7), BeNumerically("<", grown*1.7)), "%d values", values)
			all = append(all, p)
		}
	}
	runtime.KeepAlive(keys)
	runtime.KeepAlive(all)
	NewWithT(t).Expect(postings.New().Bytes()).To(BeZero())
}
