// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package postings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarn-dev/tarn/internal/postings"
)

// indexes are those of 100 objects: "app" has ten values of ten objects each, "tier" two
// of fifty, "rare" is on three objects, the field "node" has twenty values, "many" gives
// each object all of five.
func indexes() map[string]*postings.Postings {
	all := map[string]*postings.Postings{}
	file := func(name, value, key string) {
		if all[name] == nil {
			all[name] = postings.New()
		}
		all[name].Add(value, key)
	}
	for i := range 100 {
		key := fmt.Sprintf("ns%d/%02d", i%2, i)
		file(postings.LabelName("app"), fmt.Sprint("a", i%10), key)
		file(postings.LabelName("tier"), fmt.Sprint("t", i%2), key)
		file(postings.Name("node"), fmt.Sprint("n", i%20), key)
		for n := range 5 {
			file(postings.Name("many"), fmt.Sprint("m", n), key)
		}
		if i < 3 {
			file(postings.LabelName("rare"), fmt.Sprint("r", i), key)
		}
	}
	return all
}

// allDeclared are fields of which all are declared that have to be.
type allDeclared struct{}

func (allDeclared) IndexOf(field string) (string, error) {
	if postings.EveryObjectHas(field) {
		return "", nil
	}
	return postings.Name(field), nil
}

func (allDeclared) Space() string { return "" }

func (allDeclared) String() string { return "a kind" }

func TestNewPlanTakesTheShortestList(t *testing.T) {
	for _, c := range []struct {
		name, labels, fields, prefix string
		limit                        int
		want                         []string // nil means no plan
		opened                       []string // the indexes asked for
	}{
		{name: "a label", labels: "app=a3", limit: 51, want: keysOf(3, 10), opened: []string{postings.LabelName("app")}},
		{name: "double equals", labels: "app==a3", limit: 51, want: keysOf(3, 10)},
		{name: "the shorter of two labels", labels: "tier=t1,app=a3", limit: 51, want: keysOf(3, 10), opened: []string{postings.LabelName("app"), postings.LabelName("tier")}},
		{name: "in whichever order", labels: "app=a4,tier=t1,rare=r1", limit: 51, want: []string{"ns1/01"}},
		{name: "a field", fields: "node=n3", limit: 51, want: keysOf(3, 20), opened: []string{"field:node"}},
		{name: "a field shorter than a label", labels: "app=a3", fields: "node=n3", limit: 51, want: keysOf(3, 20)},
		{name: "a label shorter than a field", labels: "rare=r0", fields: "node=n3", limit: 51, want: []string{"ns0/00"}},
		{name: "the shorter of two fields", fields: "many=m1,node=n3", limit: 200, want: keysOf(3, 20)},
		{name: "in", labels: "app in (a1,a3)", limit: 51, want: append(keysOf(1, 10), keysOf(3, 10)...)},
		{name: "in, with values that nothing has", labels: "app in (none,a3)", limit: 51, want: keysOf(3, 10)},
		{name: "exists", labels: "rare", limit: 51, want: []string{"ns0/00", "ns0/02", "ns1/01"}},
		{name: "exists, of a label that all have", labels: "app", limit: 51},
		{name: "exists, in a namespace", labels: "rare", prefix: "ns0/", limit: 51},
		{name: "a value that nothing has", labels: "app=none", limit: 51, want: []string{}},
		{name: "a namespace", labels: "app in (a1,a2)", prefix: "ns0/", limit: 51, want: keysOf(2, 10)},
		{name: "a namespace in which nothing has it", labels: "tier=t0", prefix: "ns1/", limit: 51, want: []string{}},
		{name: "as long as the limit", labels: "app=a3", limit: 10},
		{name: "shorter than the limit", labels: "app=a3", limit: 11, want: keysOf(3, 10)},
		{name: "several values as long as the limit", labels: "app in (a1,a2,a3)", limit: 30},
		{name: "negations alone", labels: "app!=a1,tier notin (t0),!rare", fields: "node!=n1", limit: 51, opened: []string{}},
		{name: "numbers compared", labels: "app>1,tier<3", limit: 51, opened: []string{}},
		{name: "a negation beside", labels: "tier!=t0,app=a3", limit: 51, want: keysOf(3, 10), opened: []string{postings.LabelName("app")}},
		{name: "no such index", labels: "unknown=x", limit: 51, opened: []string{postings.LabelName("unknown")}},
		{name: "no such index, but another", labels: "unknown=x,app=a3", limit: 51, want: keysOf(3, 10)},
		{name: "a field that needs no index", fields: "metadata.name=x", limit: 51, opened: []string{}},
		{name: "nothing asked", limit: 51, opened: []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			byLabel, err := labels.Parse(c.labels)
			g.Expect(err).NotTo(HaveOccurred())
			byField, err := fields.ParseSelector(c.fields)
			g.Expect(err).NotTo(HaveOccurred())
			selection, err := postings.Resolve(byField, allDeclared{})
			g.Expect(err).NotTo(HaveOccurred())

			all, opened := indexes(), []string{}
			plan, ok := postings.NewPlan(byLabel, selection, func(name string) *postings.Postings {
				opened = append(opened, name)
				return all[name]
			}, c.prefix, c.limit)
			g.Expect(ok).To(Equal(c.want != nil))
			if ok {
				slices.Sort(c.want)
				g.Expect(slices.Collect(plan.KeysFrom(""))).To(HaveExactElements(c.want))
			}
			if c.opened != nil {
				slices.Sort(opened)
				g.Expect(opened).To(Equal(c.opened))
			}
		})
	}
}

// keysOf returns the keys of the objects whose number leaves rest when divided.
func keysOf(rest, by int) []string {
	var keys []string
	for i := rest; i < 100; i += by {
		keys = append(keys, fmt.Sprintf("ns%d/%02d", i%2, i))
	}
	return keys
}

func TestAPlanHasEachKeyOnce(t *testing.T) {
	g := NewWithT(t)
	pairs := postings.New()
	for _, pair := range []string{"x b", "y a", "x a", "y c", "z a"} {
		value, key, _ := strings.Cut(pair, " ")
		pairs.Add(value, key)
	}
	open := func(string) *postings.Postings { return pairs }
	for selector, want := range map[string][]string{"label in (x,y)": {"a", "b", "c"}, "label": {"a", "b", "c"}, "label in (z,y)": {"a", "c"}} {
		byLabel, err := labels.Parse(selector)
		g.Expect(err).NotTo(HaveOccurred())
		plan, ok := postings.NewPlan(byLabel, postings.Selection{}, open, "", 100)
		g.Expect(ok).To(BeTrue())
		g.Expect(slices.Collect(plan.KeysFrom(""))).To(Equal(want), selector)
		for n, after := range want {
			g.Expect(slices.Collect(plan.KeysFrom(after+"\x00"))).To(HaveExactElements(want[n+1:]), "%s after %s", selector, after)
		}
	}
}

func TestLabelKeysAreThoseThatAnIndexCouldAnswer(t *testing.T) {
	g := NewWithT(t)
	byLabel, err := labels.Parse("a=1,b==2,c in (3),d,e!=5,f notin (6),!g,h>8,i<9")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(postings.LabelKeys(byLabel, "")).To(ConsistOf("a", "b", "c", "d"))
	g.Expect(postings.LabelKeys(byLabel, "ns/")).To(ConsistOf("a", "b", "c"), "all values of a label are no plan for a prefix")
	g.Expect(postings.LabelKeys(nil, "")).To(BeEmpty())
	g.Expect(postings.LabelKeys(labels.Everything(), "")).To(BeEmpty())
	g.Expect(postings.LabelKeys(labels.Nothing(), "")).To(BeEmpty())
}

// TestASelectorThatHoldsNothing asks for nothing, though its requirements do not say so.
func TestASelectorThatHoldsNothing(t *testing.T) {
	g := NewWithT(t)
	node := fields.OneTermEqualSelector("node", "n3")
	for _, test := range []struct {
		selector fields.Selector
		nothing  bool
	}{
		{selector: node},
		{selector: fields.Nothing(), nothing: true},
		{selector: fields.AndSelectors(fields.Nothing(), node), nothing: true},
		{selector: fields.AndSelectors(node, fields.OneTermNotEqualSelector("many", "m1"))},
	} {
		g.Expect(postings.SelectExact(test.selector).Nothing()).To(Equal(test.nothing), test.selector.String())
	}
}
