// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package query_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/index"
)

// thing is an object with labels, and the values of the field "node".
type thing struct {
	labels labels.Set
	nodes  []string
}

func (t thing) values(name string, yield func(string)) {
	if key, ok := strings.CutPrefix(name, postings.LabelName("")); ok {
		if value, ok := t.labels[key]; ok {
			yield(value)
		}
		return
	}
	for _, node := range t.nodes {
		yield(node)
	}
}

// named is a thing as field selectors see it.
type named struct {
	key string
	thing
}

func (n named) GetNamespace() string { namespace, _, _ := strings.Cut(n.key, "/"); return namespace }
func (n named) GetName() string      { _, name, _ := strings.Cut(n.key, "/"); return name }
func (n named) HasFieldValue(_, value string) bool {
	return slices.Contains(n.nodes, value)
}

type item = watchcache.Item[thing]

// fixture is an engine and what queries are made with.
type fixture struct {
	engine  *watchcache.Engine[thing, struct{}]
	planner *query.Planner[thing]
	clock   *testclock.FakePassiveClock
	fields  *index.Fields
}

func newFixture(t *testing.T, items ...item) *fixture {
	f := &fixture{
		engine: watchcache.New[thing, struct{}](watchcache.Options[thing]{Values: thing.values}),
		clock:  testclock.NewFakePassiveClock(time.Unix(1e9, 0)),
		fields: index.NewFields(schema.GroupVersionKind{Kind: "Thing"}, logr.Discard()),
	}
	f.engine.AddIndex(postings.Name("node"))
	f.planner = query.NewPlanner(f.engine, postings.NewOnDemand(f.engine, f.clock), query.PlannerOptions{})
	if err := f.fields.Declare(addNothing{}, "node", func(client.Object) []string { return nil }); err != nil {
		t.Fatal(err)
	}
	f.engine.Replace(items, uint64(len(items)))
	return f
}

// addNothing is an informer whose indexes are there.
type addNothing struct{}

func (addNothing) AddIndexers(toolscache.Indexers) error     { return nil }
func (addNothing) AddField(string, client.IndexerFunc) error { return nil }

// query returns a query by selectors.
func (f *fixture) query(t *testing.T, byLabel, byField string) *query.Query[thing] {
	t.Helper()
	l, err := labels.Parse(byLabel)
	if err != nil {
		t.Fatal(err)
	}
	s, err := fields.ParseSelector(byField)
	if err != nil {
		t.Fatal(err)
	}
	selected, err := postings.Resolve(s, f.fields)
	if err != nil {
		t.Fatal(err)
	}
	q := &query.Query[thing]{Labels: l, Fields: selected}
	if !l.Empty() || !s.Empty() {
		q.Selects = func(i item) bool { return l.Matches(i.Value.labels) && selected.Matches(named{i.Key, i.Value}) }
	}
	return q
}

func keysOf(items []item) []string {
	keys := []string{}
	for _, i := range items {
		keys = append(keys, i.Key)
	}
	return keys
}

// numbered returns n things in the namespaces a, b and c.
func numbered(n int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = item{Key: fmt.Sprintf("%c/%04d", 'a'+i%3, i), Revision: uint64(i + 1), Value: thing{
			labels: labels.Set{"two": fmt.Sprint(i % 2), "ten": fmt.Sprint(i % 10)}, nodes: []string{fmt.Sprint("n", i%20)},
		}}
	}
	return items
}

// TestFindAgreesWithAFullScan asks random queries of random states, page by page.
func TestFindAgreesWithAFullScan(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	g := NewWithT(t)
	for range 60 {
		items := numbered(random.IntN(700))
		slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.Key, b.Key) })
		f := newFixture(t, items...)
		for range 40 {
			q := f.query(t,
				pick(random, "", "two=1", "ten=3", "ten in (1,2)", "two", "two!=0", "ten=3,two=1", "!two", "none=1"),
				pick(random, "", "node=n3", "node!=n3", "node=none", "metadata.name=0003", "metadata.namespace=b", "node=n1,metadata.namespace=a"))
			q.Prefix, q.Limit = pick(random, "", "a/", "b/", "d/"), pick(random, 0, 1, 7, 256, 300, 1000)
			q.MayBeMore = random.IntN(2) == 0
			if random.IntN(4) == 0 {
				q.Accepts = func(i item) (bool, error) { return i.Revision%3 == 0, nil }
			}
			if random.IntN(2) == 0 {
				for range 1 + random.IntN(2*postings.BuildAfter) {
					f.planner.Prepare(q)
				}
			}
			f.check(g, q, items)
		}
	}
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// check reads all pages of q and compares them with a scan of all items.
func (f *fixture) check(g *WithT, q *query.Query[thing], all []item) {
	var want []string
	for _, i := range all {
		accepted := true
		if q.Accepts != nil {
			accepted, _ = q.Accepts(i)
		}
		if strings.HasPrefix(i.Key, q.Prefix) && accepted && (q.Selects == nil || q.Selects(i)) {
			want = append(want, i.Key)
		}
	}
	about := fmt.Sprintf("labels %q, fields %+v, prefix %q, limit %d, may be more %t", q.Labels, q.Fields, q.Prefix, q.Limit, q.MayBeMore)
	page, got := *q, []string{}
	for {
		answer, err := query.Find(f.engine.Snapshot(), &page)
		g.Expect(err).NotTo(HaveOccurred())
		got = append(got, keysOf(answer.Items)...)
		if q.Limit > 0 {
			g.Expect(len(answer.Items)).To(BeNumerically("<=", q.Limit), about)
		}
		if everything := q.Selects == nil && q.Accepts == nil; everything {
			g.Expect(answer.Rest).To(Equal(len(want)-len(got)), about)
		} else {
			g.Expect(answer.Rest).To(BeZero(), about)
		}
		if !q.MayBeMore {
			g.Expect(answer.More).To(Equal(len(got) < len(want)), about)
		}
		if !answer.More {
			break
		}
		g.Expect(answer.Items).To(HaveLen(q.Limit), about)
		page.From = watchcache.After(answer.Items[len(answer.Items)-1].Key)
	}
	g.Expect(got).To(HaveExactElements(want), about)
}

func TestWhatAnIndexKnowsIsNotCompared(t *testing.T) {
	f := newFixture(t, numbered(600)...)
	for _, test := range []struct {
		labels, fields, prefix string
		index                  string
		compared               int
	}{
		{labels: "ten=3", index: postings.LabelName("ten")},
		{labels: "ten in (1,2)", index: postings.LabelName("ten")},
		{labels: "ten=3", prefix: "a/", index: postings.LabelName("ten")},
		{fields: "node=n3", index: postings.Name("node")},
		{labels: "ten=3", fields: "node=n3", index: postings.Name("node"), compared: 30},
		{labels: "ten=3,two=1", index: postings.LabelName("ten"), compared: 60},
		{labels: "ten=3", fields: "metadata.namespace=a", index: postings.LabelName("ten"), compared: 60},
		{labels: "two", compared: 600}, // more than half of all is no plan
		{labels: "ten!=3", compared: 600},
	} {
		t.Run(test.labels+" "+test.fields+" "+test.prefix, func(t *testing.T) {
			g := NewWithT(t)
			q := f.query(t, test.labels, test.fields)
			q.Prefix = test.prefix
			compared, selects := 0, q.Selects
			q.Selects = func(i item) bool { compared++; return selects(i) }
			f.engine.AddIndex(postings.LabelName("ten"))
			f.engine.AddIndex(postings.LabelName("two"))
			answer, err := query.Find(f.engine.Snapshot(), q)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Index).To(Equal(test.index))
			g.Expect(compared).To(Equal(test.compared))
		})
	}
}

// TestASelectorThatSaysMoreThanItsRequirements has none, and matches nothing: no plan may
// take it for everything.
func TestASelectorThatSaysMoreThanItsRequirements(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(t, numbered(600)...)
	q := f.query(t, "", "node=n3")
	byField := q.Selects
	q.Labels = labels.Nothing()
	q.Selects = func(i item) bool { return labels.Nothing().Matches(i.Value.labels) && byField(i) }
	answer, err := query.Find(f.engine.Snapshot(), q)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Items).To(BeEmpty())
}

func TestOneKeyIsLookedUp(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(t, numbered(600)...)
	q := f.query(t, "two=1", "")
	q.Key = "a/0003"
	answer, err := query.Find(f.engine.Snapshot(), q)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(keysOf(answer.Items)).To(Equal([]string{"a/0003"}))
	g.Expect(answer.Looked).To(Equal(1))
	q.From = watchcache.After(q.Key)
	answer, _ = query.Find(f.engine.Snapshot(), q)
	g.Expect(answer.Items).To(BeEmpty(), "the page before ended with it")
	q.From, q.Key = "", "a/0006"
	answer, _ = query.Find(f.engine.Snapshot(), q)
	g.Expect(answer.Items).To(BeEmpty(), "it does not match")
}

func TestAnErrorEndsAQuery(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(t, numbered(20)...)
	broken, looked := errors.New("broken"), 0
	q := &query.Query[thing]{Accepts: func(item) (bool, error) {
		if looked++; looked == 3 {
			return false, broken
		}
		return true, nil
	}}
	_, err := query.Find(f.engine.Snapshot(), q)
	g.Expect(err).To(MatchError(broken))
	g.Expect(looked).To(Equal(3))
}

// TestIndexesAreMadeWhereTheyPay is for a planner that makes indexes of labels, and for another
// that makes indexes of fields too.
func TestIndexesAreMadeWhereTheyPay(t *testing.T) {
	label, node := postings.LabelName("ten"), postings.Name("node")
	for _, test := range []struct {
		name, labels, fields, prefix, key string
		things                            int
		made, madeWithFields              []string
	}{
		{name: "a label", labels: "ten=1", things: 600, made: []string{label}, madeWithFields: []string{label}},
		{name: "few objects", labels: "ten=1", things: postings.ScanWorth},
		{name: "a namespace of few", labels: "ten=1", prefix: "d/", things: 600},
		{name: "one key", labels: "ten=1", key: "a/0003", things: 600},
		{name: "a field", fields: "node=n1", things: 600, madeWithFields: []string{node}},
		{name: "a field that few have, and a label", labels: "ten=1", fields: "node=n1", things: 600, madeWithFields: []string{label, node}},
		{name: "what no index answers", labels: "ten!=1", fields: "node!=n1", things: 600},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			for _, withFields := range []bool{false, true} {
				f := newFixture(t, numbered(test.things)...)
				want := test.made
				if withFields {
					want = test.madeWithFields
					f.engine.RemoveIndex(node)
				}
				onDemand := postings.NewOnDemand(f.engine, f.clock)
				planner := query.NewPlanner(f.engine, onDemand, query.PlannerOptions{Fields: withFields})
				q := f.query(t, test.labels, test.fields)
				q.Prefix, q.Key = test.prefix, test.key
				planner.Prepare(q)
				g.Expect(onDemand.Asked()).To(BeEmpty(), "one query is not worth an index")
				for range postings.BuildAfter {
					planner.Prepare(q)
				}
				g.Expect(onDemand.Asked()).To(ConsistOf(want), "with fields: %t", withFields)
				g.Expect(planner.Indexes().Number).To(Equal(len(want)))
			}
		})
	}
}

// TestAnIndexThatIsUsedStays though it leaves so few objects that no other would be made.
func TestAnIndexThatIsUsedStays(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(t, numbered(600)...)
	f.engine.RemoveIndex(postings.Name("node"))
	onDemand := postings.NewOnDemand(f.engine, f.clock)
	planner := query.NewPlanner(f.engine, onDemand, query.PlannerOptions{Fields: true})
	q := f.query(t, "", "node=n1")
	for range 5 {
		planner.Prepare(q)
		f.clock.SetTime(f.clock.Now().Add(postings.ColdAfter * 3 / 4))
	}
	g.Expect(onDemand.Asked()).To(ConsistOf(postings.Name("node")))
}
