// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"testing"

	. "github.com/onsi/gomega"
)

// TestInterest shows that every watcher whom an event may concern is found exactly once.
func TestInterest(t *testing.T) {
	watchers := map[string]*watcher{
		"all":       {},
		"namespace": {scope: scope{namespace: "a"}},
		"name":      {scope: scope{name: "x"}},
		"both":      {scope: scope{namespace: "a", name: "x"}},
		"other":     {scope: scope{namespace: "b", name: "x"}},
		"one":       {trigger: "one", triggered: true, scope: scope{namespace: "b"}},
		"two":       {trigger: "two", triggered: true},
		"empty":     {triggered: true},
	}
	i := newInterest()
	for _, w := range watchers {
		i.add(w)
	}
	for name, test := range map[string]struct {
		namespace, name string
		triggers        []string
		found           []string
	}{
		"an object":           {"a", "x", nil, []string{"all", "namespace", "name", "both"}},
		"another name":        {"a", "y", nil, []string{"all", "namespace"}},
		"another namespace":   {"c", "x", nil, []string{"all", "name"}},
		"without a namespace": {"", "x", nil, []string{"all", "name"}},
		"without a name":      {"a", "", nil, []string{"all", "namespace"}},
		"without either":      {"", "", nil, []string{"all"}},
		"with a trigger":      {"c", "y", []string{"one"}, []string{"all", "one"}},
		"moving":              {"c", "y", []string{"one", "two"}, []string{"all", "one", "two"}},
		"to no value":         {"c", "y", []string{"one", ""}, []string{"all", "one", "empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			i.each(test.namespace, test.name, test.triggers, func(w *watcher) {
				for name, other := range watchers {
					if w == other {
						found = append(found, name)
					}
				}
			})
			NewWithT(t).Expect(found).To(ConsistOf(test.found))
		})
	}
}

// TestInterestIsLeft lets watchers leave while they are walked.
func TestInterestIsLeft(t *testing.T) {
	g := NewWithT(t)
	i, leaving := newInterest(), map[*watcher]bool{}
	for n := range 10 {
		w := &watcher{triggered: n%2 == 0, trigger: "one"}
		i.add(w)
		leaving[w] = n%3 == 0
	}
	walk := func() (seen []*watcher) {
		i.each("a", "x", []string{"one"}, func(w *watcher) {
			seen = append(seen, w)
			if leaving[w] {
				i.remove(w)
			}
		})
		return seen
	}
	g.Expect(walk()).To(HaveLen(10))
	g.Expect(walk()).To(HaveLen(6))
	for w := range leaving {
		leaving[w] = true
	}
	walk()
	g.Expect(walk()).To(BeEmpty())
	g.Expect(i.byScope).To(BeEmpty())
	g.Expect(i.byTrigger).To(BeEmpty())
}
