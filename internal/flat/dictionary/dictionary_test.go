// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// TestAgreesWithAModel lets objects bring random strings, and compares with a map of those that two objects have brought.
func TestAgreesWithAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g, random := NewWithT(t), rand.New(rand.NewPCG(seed, 0))
	d := dictionary.New(dictionary.Limits{})
	first, numbers := map[string]uint32{}, map[string]uint32{}
	for range 20_000 {
		s, owner := fmt.Sprintf("text %0*d", 1+random.IntN(20), random.IntN(400)), random.Uint32N(8)
		number, ok := d.Intern(d.Hash(s), owner, s)
		by, brought := first[s]
		switch known, entered := numbers[s]; {
		case entered:
			g.Expect(ok).To(BeTrue())
			g.Expect(number).To(Equal(known))
		case ok:
			g.Expect(brought && by != owner).To(BeTrue(), "one object alone brings %q", s)
			numbers[s] = number
		default: // the doorkeeper may have forgotten another object
			first[s] = owner
		}
	}
	g.Expect(len(numbers)).To(BeNumerically(">", 1000))
	view := d.View()
	for s, number := range numbers {
		entry, ok := view.Entry(uint64(number))
		g.Expect(ok).To(BeTrue())
		g.Expect(entry).To(Equal(s))
	}
	_, ok := view.Entry(uint64(len(numbers)))
	g.Expect(ok).To(BeFalse(), "there are no others")
	g.Expect(d.Stats().Entries).To(Equal(len(numbers)))
}

// TestLimitsHold offers more than there is room for, and a string that is too long.
func TestLimitsHold(t *testing.T) {
	g, d := NewWithT(t), dictionary.New(dictionary.Limits{Entries: 100, Bytes: 2000})
	twice := func(s string) bool {
		d.Intern(d.Hash(s), 1, s)
		_, ok := d.Intern(d.Hash(s), 2, s)
		return ok
	}
	g.Expect(twice(strings.Repeat("x", dictionary.LongestEntry+1))).To(BeFalse())
	entered := 0
	for n := range 1000 {
		if twice(fmt.Sprintf("a string of some length, number %d", n)) {
			entered++
		}
	}
	s := d.Stats()
	g.Expect(s.Entries).To(Equal(entered))
	g.Expect(s.Bytes).To(And(BeNumerically(">", 1900), BeNumerically("<=", 2000)))
	g.Expect(d.Successor().Stats().Entries).To(BeZero())
}
