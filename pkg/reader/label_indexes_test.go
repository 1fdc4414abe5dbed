// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/internal/store"
	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/index"
)

// labelled is a store of Pods with many labels, and a clock that the test moves.
type labelled struct {
	*WithT
	*store.Engine
	engine *watchcache.Engine[object.Object, struct{}] // Engine reads it
	form   *object.Form
	clock  *testclock.FakePassiveClock
	reader *CacheReader
	t      *testing.T
}

func newLabelled(t *testing.T, pods int) *labelled {
	form := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.Pod]()})
	engine := watchcache.New[object.Object, struct{}](watchcache.Options[object.Object]{Values: informer.Values(form)})
	l := &labelled{WithT: NewWithT(t), clock: testclock.NewFakePassiveClock(time.Unix(1e9, 0)), t: t}
	l.Engine, l.engine, l.form = store.NewEngine(engine, form, l.clock), engine, form
	l.reader = New(Options{
		Store: l.Engine, GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Scope: meta.RESTScopeNameNamespace,
		Fields: index.NewFields(corev1.SchemeGroupVersion.WithKind("Pod"), logr.Discard()),
	})
	items := make([]watchcache.Item[object.Object], pods)
	for i := range items {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("pod", i), Labels: map[string]string{}}}
		for n := range 40 {
			pod.Labels[fmt.Sprint("label", n)] = fmt.Sprint("value", i%(n+1))
		}
		items[i] = watchcache.Item[object.Object]{Key: object.Key("ns", pod.Name), Revision: uint64(i + 1), Value: form.Keep(pod)}
	}
	engine.Replace(items, uint64(pods))
	return l
}

// AddIndexers implements filled.
func (l *labelled) AddIndexers(toolscache.Indexers) error { panic("an engine has fields") }

// AddField implements postings.Informer.
func (l *labelled) AddField(name string, extract client.IndexerFunc) error {
	l.form.Declare(name, extract)
	l.engine.Rewrite(func(i watchcache.Item[object.Object]) object.Object { return l.form.Retell(i.Value) })
	l.engine.AddIndex(name)
	return nil
}

// list lists by a selector as often as an index is worth it, and returns the number of objects.
func (l *labelled) list(selector string) int {
	parsed, err := labels.Parse(selector)
	l.Expect(err).NotTo(HaveOccurred())
	return l.often(client.MatchingLabelsSelector{Selector: parsed})
}

// often lists as often as an index is worth it, and returns the number of objects.
func (l *labelled) often(opts ...client.ListOption) int {
	list, found := &corev1.PodList{}, -1
	for range postings.BuildAfter + 1 {
		l.Expect(l.reader.List(l.t.Context(), list, opts...)).To(Succeed())
		if found >= 0 {
			l.Expect(list.Items).To(HaveLen(found), "with and without an index")
		}
		found = len(list.Items)
	}
	return found
}

func (l *labelled) pass(d time.Duration) { l.clock.SetTime(l.clock.Now().Add(d)) }

// indexed returns the labels that the engine indexes, whose number the store must agree with.
func (l *labelled) indexed() []string {
	keys, snapshot := []string{}, l.engine.Snapshot()
	for n := range 40 {
		key := fmt.Sprint("label", n)
		if snapshot.Index(postings.LabelName(key)) != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	l.Expect(l.LabelIndexes().Number).To(Equal(len(keys)))
	return keys
}

func TestLabelsAreIndexedWhenAListAsks(t *testing.T) {
	l := newLabelled(t, 200)
	l.Expect(l.indexed()).To(BeEmpty())
	l.Expect(l.list("label1=value1,label2 in (value0,value2),label3")).To(Equal(66))
	l.Expect(l.indexed()).To(Equal([]string{"label1", "label2", "label3"}))
	l.Expect(l.list("label4!=value1,label5 notin (value1),!none,label6>3")).To(BeZero())
	l.Expect(l.indexed()).To(HaveLen(3), "no index could answer")
	l.Expect(l.list("")).To(Equal(200))
	l.Expect(l.indexed()).To(HaveLen(3))
}

func TestTheFirstListsByALabelBuildNoIndex(t *testing.T) {
	l := newLabelled(t, 200)
	for range postings.BuildAfter {
		l.Expect(l.indexed()).To(BeEmpty())
		l.Expect(l.reader.List(t.Context(), &corev1.PodList{}, client.MatchingLabels{"label1": "value1"})).To(Succeed())
	}
	l.Expect(l.indexed()).To(BeEmpty())
	l.Expect(l.reader.List(t.Context(), &corev1.PodList{}, client.MatchingLabels{"label1": "value1"})).To(Succeed())
	l.Expect(l.indexed()).To(Equal([]string{"label1"}))
}

func TestLabelsOfFewObjectsAreNotIndexed(t *testing.T) {
	l := newLabelled(t, postings.ScanWorth)
	l.Expect(l.list("label1=value1")).To(Equal(postings.ScanWorth / 2))
	l.Expect(l.indexed()).To(BeEmpty())
}

// TestAnIndexThatIsNotUsedIsNotBuilt has 200 Pods in one namespace and one in another.
func TestAnIndexThatIsNotUsedIsNotBuilt(t *testing.T) {
	l := newLabelled(t, 200)
	few := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "few", Name: "pod", Labels: map[string]string{"label1": "value1"}}}
	l.engine.Apply(watchcache.Change[object.Object, struct{}]{Item: watchcache.Item[object.Object]{Key: object.Key("few", "pod"), Revision: 201, Value: l.form.Keep(few)}})
	l.Expect(l.reader.fields.Declare(l, "name", func(o client.Object) []string { return []string{o.GetName()} })).To(Succeed())
	in, by := client.InNamespace("ns"), func(field, value string) client.ListOption { return client.MatchingFields{field: value} }
	for name, opts := range map[string][]client.ListOption{
		"a label that is there, in a namespace": {client.HasLabels{"label1"}, in},
		"a namespace of few objects":            {client.MatchingLabels{"label1": "value1"}, client.InNamespace("few")},
		"a name in a namespace":                 {client.MatchingLabels{"label1": "value1"}, in, by("metadata.name", "pod1")},
		"nothing":                               {client.MatchingLabels{"label1": "value1"}, client.MatchingFieldsSelector{Selector: fields.Nothing()}},
		"a field that few have":                 {client.MatchingLabels{"label1": "value1"}, by("name", "pod1")},
	} {
		l.often(opts...)
		l.Expect(l.indexed()).To(BeEmpty(), name)
	}
	l.often(client.MatchingLabels{"label1": "value1"}, in)
	l.Expect(l.indexed()).To(Equal([]string{"label1"}))
}

// TestAnIndexCalledLikeALabel is an index of the user's own, which is none of a label.
func TestAnIndexCalledLikeALabel(t *testing.T) {
	l := newLabelled(t, 200)
	const name = "label:label1"
	l.Expect(l.AddField(name, func(o client.Object) []string { return []string{o.GetName()} })).To(Succeed())
	l.Expect(l.list("label1=value1")).To(Equal(100))
	l.pass(postings.ColdAfter)
	l.list("")
	l.Expect(l.indexed()).To(BeEmpty())
	pairs := l.engine.Snapshot().Index(name)
	l.Expect(pairs).NotTo(BeNil(), "it was not dropped with the label's")
	l.Expect(slices.Collect(pairs.Keys("pod7", ""))).To(Equal([]string{object.Key("ns", "pod7")}))
}

func TestColdLabelIndexesAreDropped(t *testing.T) {
	l := newLabelled(t, 200)
	l.list("label1=value1")
	l.list("label2=value1")
	l.pass(postings.ColdAfter - time.Second)
	l.list("label2=value1")
	l.Expect(l.indexed()).To(Equal([]string{"label1", "label2"}), "neither is cold")
	l.pass(time.Minute)
	l.list("")
	l.Expect(l.indexed()).To(Equal([]string{"label2"}), "a list of everything looks for cold ones, too")
	l.pass(postings.ColdAfter)
	l.Expect(l.list("label2=value1")).To(Equal(67))
	l.Expect(l.indexed()).To(Equal([]string{"label2"}), "it was built again")
}

func TestTheNumberOfLabelIndexesIsBounded(t *testing.T) {
	l := newLabelled(t, 200)
	for n := range postings.MaxOnDemand {
		l.list(fmt.Sprintf("label%d=value0", n))
		l.pass(time.Second)
	}
	l.Expect(l.indexed()).To(HaveLen(postings.MaxOnDemand))
	l.list("label0=value0")
	l.list("label33=value0")
	l.Expect(l.indexed()).To(And(HaveLen(postings.MaxOnDemand), ContainElements("label0", "label33"), Not(ContainElement("label1"))),
		"the one asked for longest ago has gone")

	var all string
	for n := range 40 {
		all += fmt.Sprintf(",label%d=value0", n)
	}
	l.Expect(l.list(all[1:])).To(Equal(1), "only the first has every value0")
	l.Expect(l.indexed()).To(HaveLen(postings.MaxOnDemand))
}

func TestTheMemoryOfLabelIndexesIsTold(t *testing.T) {
	l := newLabelled(t, 200)
	l.Expect(l.LabelIndexes()).To(Equal(query.OnDemandIndexes{}))
	l.list("label1=value1")
	one := l.LabelIndexes()
	l.Expect(one.Number).To(Equal(1))
	l.Expect(one.Postings).To(Equal(200))
	l.Expect(one.Bytes).To(BeNumerically(">", 200*24), "each pair has three words")
	l.list("label39=value1")
	two := l.LabelIndexes()
	l.Expect(two.Number).To(Equal(2))
	l.Expect(two.Postings).To(Equal(400))
	l.Expect(two.Bytes).To(BeNumerically(">", 2*one.Bytes), "it has more values")
	l.pass(postings.ColdAfter)
	l.list("")
	l.Expect(l.LabelIndexes()).To(Equal(query.OnDemandIndexes{}))
}

func TestAStateIsKeptIfThereArePagesToCome(t *testing.T) {
	l := newLabelled(t, 200)
	list := &corev1.PodList{}
	l.Expect(l.reader.List(t.Context(), list, client.Limit(200))).To(Succeed())
	l.Expect(l.Stats().Store.KeptStates).To(BeZero(), "there are no pages to come")
	l.Expect(l.reader.List(t.Context(), list, client.Limit(199))).To(Succeed())
	l.Expect(l.Stats().Store.KeptStates).To(Equal(1))
}

// TestAListThatCannotGoOnHoldsNothing loses one of the two states that a list reads: the other
// one is of no use.
func TestAListThatCannotGoOnHoldsNothing(t *testing.T) {
	g := NewWithT(t)
	var readers []*CacheReader
	var kept []*labelled
	for range 2 {
		l := newLabelled(t, 10)
		kept, readers = append(kept, l), append(readers, l.reader)
	}
	list := &corev1.PodList{}
	g.Expect(List(t.Context(), list, &client.ListOptions{Limit: 3}, readers...)).To(Succeed())
	g.Expect(kept[1].Stats().Store.KeptStates).To(Equal(1))
	kept[0].DropPages()
	err := List(t.Context(), list, &client.ListOptions{Limit: 3, Continue: list.Continue}, readers...)
	g.Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "%v", err)
	g.Expect(kept[1].Stats().Store.KeptStates).To(BeZero())
}
