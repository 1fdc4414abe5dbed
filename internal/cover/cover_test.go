// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cover

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apisharding "k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apiserver/pkg/sharding"
)

// TestCoverSelectsAsTheServerDoes compares covers with the API server's parser and selector.
func TestCoverSelectsAsTheServerDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const maxRanges = 256
	for _, number := range []int{1, 2, maxRanges - 1, maxRanges, maxRanges + 1, 400, 3000} {
		wanted, others := map[string]bool{}, map[string]bool{}
		for len(wanted) < number {
			wanted[fmt.Sprint("shop-", random.Uint32())] = true
		}
		for len(others) < 4*number {
			others[fmt.Sprint("other-", random.Uint32())] = true
		}
		c := Of(maps.Keys(wanted), maxRanges)
		if len(c) > maxRanges || len(c) < min(number, maxRanges) {
			t.Errorf("%d namespaces have %d ranges", number, len(c))
		}
		if text := url.QueryEscape(c.Selector()); len(text) > 27<<10 {
			t.Errorf("%d namespaces take %d bytes of a URL", number, len(text))
		}
		selector, err := sharding.Parse(c.Selector())
		if err != nil {
			t.Fatal(err)
		}
		selects := func(namespace string) bool {
			selected, err := selector.Matches(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
			if err != nil {
				t.Fatal(err)
			}
			if selected != c.Has(namespace) {
				t.Errorf("the server selects %s: %t", namespace, selected)
			}
			return selected
		}
		for namespace := range wanted {
			if !selects(namespace) {
				t.Errorf("%s is not selected", namespace)
			}
		}
		besides := 0
		for namespace := range others {
			if selects(namespace) {
				besides++
			}
		}
		got := float64(besides) / float64(len(others))
		if number <= maxRanges && besides > 0 || number == 400 && got > 0.15 || math.Abs(c.Share()-got) > 0.1 {
			t.Errorf("%d namespaces bring %.2f of others, where %.2f of the hashes are covered", number, got, c.Share())
		}
	}
}

func TestCoverOfTheEnds(t *testing.T) {
	c := Cover{{0, 0}, {math.MaxUint64, math.MaxUint64}}
	parsed, err := sharding.Parse(c.Selector())
	if err != nil {
		t.Fatal(err)
	}
	if requirements := parsed.Requirements(); !slices.Equal(requirements, []apisharding.ShardRangeRequirement{
		{Key: "object.metadata.namespace", Start: "0x0000000000000000", End: "0x0000000000000001"},
		{Key: "object.metadata.namespace", Start: "0xffffffffffffffff", End: "0x10000000000000000"},
	}) {
		t.Errorf("%v", requirements)
	}
	if all, err := sharding.Parse(Everything); err != nil || len(all.Requirements()) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if c := Cover(nil); !c.Has("shop") || c.Selector() != "" || c.Share() != 1 {
		t.Error("no cover is of all")
	}
	if Of(maps.Keys(map[string]bool{}), 1).Has("shop") {
		t.Error("a cover of none is of none")
	}
	two := Cover{{10, 20}, {30, 40}, {100, 110}}.within(2)
	if !slices.Equal(two, Cover{{10, 40}, {100, 110}}) {
		t.Errorf("%v", two)
	}
}

// TestCoverOfNumberedNames: hashes of such names are near each other, and the nearest ranges become one first.
func TestCoverOfNumberedNames(t *testing.T) {
	wanted := map[string]bool{}
	for i := 0; i < 2000; i += 5 {
		wanted[fmt.Sprint("tenant-", i+i%3)] = true
	}
	c, besides := Of(maps.Keys(wanted), 256), 0
	for i := range 2000 {
		if name := fmt.Sprint("tenant-", i); c.Has(name) && !wanted[name] {
			besides++
		}
	}
	if besides > 800 {
		t.Errorf("%d of 1,600 others are covered", besides)
	}
	t.Logf("%d of 1,600 others are covered, in %d ranges", besides, len(c))
}
