// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"testing"

	. "github.com/onsi/gomega"
)

// TestWatcherIndex shows that every watcher that an event may concern is found exactly once.
func TestWatcherIndex(t *testing.T) {
	watchers := map[string]*watcher{
		"all":       {},
		"namespace": {address: address{scope: Scope{Namespace: "a"}}},
		"name":      {address: address{scope: Scope{Name: "x"}}},
		"both":      {address: address{scope: Scope{Namespace: "a", Name: "x"}}},
		"other":     {address: address{scope: Scope{Namespace: "b", Name: "x"}}},
		"one":       {address: address{trigger: "one", triggered: true, scope: Scope{Namespace: "b"}}},
		"two":       {address: address{trigger: "two", triggered: true}},
		"empty":     {address: address{triggered: true}},
	}
	i := newWatcherIndex()
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
			i.each(Scope{test.namespace, test.name}, test.triggers, func(w *watcher) {
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

// TestWatcherIndexIsLeft lets watchers leave while they are walked.
func TestWatcherIndexIsLeft(t *testing.T) {
	g := NewWithT(t)
	i, leaving := newWatcherIndex(), map[*watcher]bool{}
	for n := range 10 {
		w := &watcher{address: address{triggered: n%2 == 0, trigger: "one"}}
		i.add(w)
		leaving[w] = n%3 == 0
	}
	walk := func() (seen []*watcher) {
		i.each(Scope{"a", "x"}, []string{"one"}, func(w *watcher) {
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
