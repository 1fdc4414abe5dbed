// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/pkg/index"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func pod(namespace, name, node string, policy corev1.RestartPolicy) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, RestartPolicy: policy},
	}
}

// object is a Pod as selections see it.
type object struct {
	*corev1.Pod
	fields *index.Fields
}

func (o object) HasFieldValue(field, value string) bool {
	return slices.Contains(o.fields.Values(o.Pod, field), value)
}

func byNode(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }

func byPolicy(obj client.Object) []string {
	return []string{string(obj.(*corev1.Pod).Spec.RestartPolicy)}
}

func newStore() toolscache.Indexer {
	return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
}

func TestDeclareFilesValuesUnderTheNamespaceAndUnderAll(t *testing.T) {
	g := NewWithT(t)
	store, declared := newStore(), index.NewFields(podKind, logr.Discard())
	g.Expect(store.Add(pod("a", "before", "n1", ""))).To(Succeed())
	g.Expect(declared.Declare(store, "spec.nodeName", byNode)).To(Succeed())
	g.Expect(store.Add(pod("b", "after", "n1", ""))).To(Succeed())

	keys := func(namespace string) []string {
		found, err := store.IndexKeys(postings.Name("spec.nodeName"), postings.Key(namespace, "n1"))
		g.Expect(err).NotTo(HaveOccurred())
		return found
	}
	g.Expect(keys("")).To(ConsistOf("a/before", "b/after"))
	g.Expect(keys("a")).To(ConsistOf("a/before"))
	g.Expect(keys("b")).To(ConsistOf("b/after"))
	g.Expect(keys("c")).To(BeEmpty())
}

// TestAFunctionRunsForOneObjectAtATime, also when lists match objects beside a write.
func TestAFunctionRunsForOneObjectAtATime(t *testing.T) {
	g := NewWithT(t)
	store, declared := newStore(), index.NewFields(podKind, logr.Discard())
	var running atomic.Int32
	together := false
	f := func(client.Object) []string {
		together = together || running.Add(1) > 1
		runtime.Gosched()
		running.Add(-1)
		return nil
	}
	g.Expect(declared.Declare(store, "field", f)).To(Succeed())
	g.Expect(declared.Declare(store, "field", f)).To(Succeed())
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 200 {
				if i == 0 {
					_ = store.Update(pod("a", fmt.Sprint(n), "", ""))
				}
				declared.Values(pod("a", "x", "", ""), "field")
			}
		})
	}
	callers.Wait()
	g.Expect(together).To(BeFalse())
}

func TestDeclareClusterScoped(t *testing.T) {
	g := NewWithT(t)
	values := []string{"x", "y"}
	store, declared := newStore(), index.NewFields(corev1.SchemeGroupVersion.WithKind("Node"), logr.Discard())
	g.Expect(declared.Declare(store, "fixed", func(client.Object) []string { return values })).To(Succeed())
	g.Expect(store.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})).To(Succeed())
	g.Expect(store.IndexKeys(postings.Name("fixed"), postings.Key("", "y"))).To(ConsistOf("n1"))
	g.Expect(values).To(Equal([]string{"x", "y"}), "the extractor's own slice is not modified")
}

func TestDeclareRefusesBadInput(t *testing.T) {
	g := NewWithT(t)
	store, declared := newStore(), index.NewFields(podKind, logr.Discard())
	g.Expect(declared.Declare(store, "", byNode)).To(MatchError(ContainSubstring("name of the field is empty")))
	g.Expect(declared.Declare(store, "spec.nodeName", nil)).To(MatchError(ContainSubstring("is nil")))

	g.Expect(store.AddIndexers(toolscache.Indexers{postings.Name("taken"): toolscache.MetaNamespaceIndexFunc})).To(Succeed())
	g.Expect(declared.Declare(store, "taken", byNode)).To(MatchError(And(ContainSubstring("taken"), ContainSubstring("Pod (v1)"))))
	_, err := postings.Resolve(fields.OneTermEqualSelector("taken", "x"), declared)
	g.Expect(err).To(HaveOccurred(), "a field that could not be declared is not indexed")
}

func TestDeclareTwiceKeepsTheFirstAndReportsADifference(t *testing.T) {
	g := NewWithT(t)
	var logged []string
	logger := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	store, declared := newStore(), index.NewFields(podKind, logger)

	g.Expect(declared.Declare(store, "node", byNode)).To(Succeed())
	g.Expect(declared.Declare(store, "node", func(o client.Object) []string { return byNode(o) })).To(Succeed())
	g.Expect(store.Add(pod("a", "one", "n1", "Always"))).To(Succeed())
	g.Expect(logged).To(BeEmpty(), "functions that agree are no problem")

	byNameAfterOne := func(o client.Object) []string { // agrees on what is there
		if o.GetName() == "one" {
			return byNode(o)
		}
		return []string{o.GetName()}
	}
	g.Expect(declared.Declare(store, "node", byNameAfterOne)).To(Succeed())
	g.Expect(logged).To(BeEmpty())
	g.Expect(store.Add(pod("a", "two", "n1", "Never"))).To(Succeed())
	g.Expect(store.Add(pod("a", "three", "n1", "Never"))).To(Succeed())
	g.Expect(logged).To(HaveLen(1), "a difference is reported once")
	g.Expect(logged[0]).To(And(ContainSubstring("node"), ContainSubstring("two"), ContainSubstring("n1")))

	g.Expect(declared.Declare(store, "node", byPolicy)).To(Succeed())
	g.Expect(logged).To(HaveLen(2), "each function is compared with the first one")
	g.Expect(store.IndexKeys(postings.Name("node"), postings.Key("a", "n1"))).To(HaveLen(3))
}

// walked is an informer of ours: its objects are walked.
type walked struct {
	toolscache.Indexer
	walked int
}

func (w *walked) Objects() iter.Seq[client.Object] {
	return func(yield func(client.Object) bool) {
		for _, obj := range w.List() {
			if w.walked++; !yield(obj.(client.Object)) {
				return
			}
		}
	}
}

// TestDeclareTwiceReportsADifferenceOnWhatIsThere declares a function when the objects on which it
// disagrees are there already and do not change any more.
func TestDeclareTwiceReportsADifferenceOnWhatIsThere(t *testing.T) {
	own := &walked{Indexer: newStore()}
	shared := toolscache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, toolscache.Indexers{})
	for name, informer := range map[string]struct {
		informer interface {
			AddIndexers(toolscache.Indexers) error
		}
		store toolscache.Store
	}{"a store": {own.Indexer, own}, "ours": {own, own}, "client-go's": {shared, shared.GetStore()}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var logged []string
			logger := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
			declared := index.NewFields(podKind, logger)
			field := "of " + name
			g.Expect(informer.store.Add(pod("a", "one", "n1", "Always"))).To(Succeed())
			g.Expect(informer.store.Add(pod("a", "two", "n1", "n1"))).To(Succeed())
			g.Expect(declared.Declare(informer.informer, field, byNode)).To(Succeed())
			g.Expect(declared.Declare(informer.informer, field, func(o client.Object) []string { return append(byNode(o), byNode(o)...) })).To(Succeed())
			g.Expect(logged).To(BeEmpty(), "that would make the same index")
			own.walked = 0
			for range 2 {
				g.Expect(declared.Declare(informer.informer, field, byPolicy)).To(Succeed())
			}
			g.Expect(logged).To(HaveLen(2))
			g.Expect(logged[0]).To(And(ContainSubstring("one"), ContainSubstring("Always"), ContainSubstring("n1")))
			if name == "ours" {
				g.Expect(own.walked).To(And(BeNumerically(">", 0), BeNumerically("<=", 4)))
			}
		})
	}
}

// TestAFurtherFunctionThatPanics takes no values from the index.
func TestAFurtherFunctionThatPanics(t *testing.T) {
	g := NewWithT(t)
	reallyCrash, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
	defer func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = reallyCrash, handlers }()
	panics := 0
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = []func(context.Context, any){func(context.Context, any) { panics++ }}

	store, declared := newStore(), index.NewFields(podKind, logr.Discard())
	g.Expect(declared.Declare(store, "node", byNode)).To(Succeed())
	g.Expect(store.Add(pod("a", "one", "n1", "Always"))).To(Succeed())
	g.Expect(declared.Declare(store, "node", func(client.Object) []string { panic("no") })).To(Succeed())
	g.Expect(panics).To(Equal(1))
	g.Expect(store.Add(pod("a", "two", "n1", "Always"))).To(Succeed())
	g.Expect(panics).To(Equal(2))
	g.Expect(store.IndexKeys(postings.Name("node"), postings.Key("a", "n1"))).To(HaveLen(2))
}

// A function that extracts values is a user's: what it does must not wait for itself.
func TestNoLockIsHeldWhileValuesAreExtracted(t *testing.T) {
	g := NewWithT(t)
	store, declared := newStore(), index.NewFields(podKind, logr.Discard())
	g.Expect(store.Add(pod("a", "one", "n1", "Always"))).To(Succeed())
	calls := 0
	extract := func(o client.Object) []string {
		if calls++; calls == 1 { // of Declare
			_, err := postings.Resolve(fields.OneTermEqualSelector("metadata.name", "one"), declared)
			g.Expect(err).NotTo(HaveOccurred())
		} else { // of Values
			g.Expect(declared.Declare(store, "other", byPolicy)).To(Succeed())
		}
		return byNode(o)
	}
	g.Expect(declared.Declare(store, "node", extract)).To(Succeed())
	g.Expect(declared.Values(pod("a", "one", "n1", "Always"), "node")).To(Equal([]string{"n1"}))
	g.Expect(calls).To(Equal(2))
}

func TestSelectNamesTheFieldThatIsNotIndexed(t *testing.T) {
	g := NewWithT(t)
	_, err := postings.Resolve(fields.OneTermEqualSelector("spec.nodeName", "n1"), index.NewFields(podKind, logr.Discard()))
	var notIndexed *index.NotIndexedError
	g.Expect(errors.As(err, &notIndexed)).To(BeTrue())
	g.Expect(*notIndexed).To(Equal(index.NotIndexedError{GVK: podKind, Field: "spec.nodeName"}))
	g.Expect(err).To(MatchError(`field "spec.nodeName" of Pod (v1) is not indexed: declare it with IndexField before listing by it`))
}

// unsupported is a selector with an operator that fields do not have.
type unsupported struct{ fields.Selector }

func (unsupported) Empty() bool { return false }
func (unsupported) Requirements() fields.Requirements {
	return fields.Requirements{{Field: "metadata.name", Operator: selection.In, Value: "x"}}
}

func TestSelectRefusesOtherOperators(t *testing.T) {
	_, err := postings.Resolve(unsupported{fields.Everything()}, index.NewFields(podKind, logr.Discard()))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`operator "in" is not supported`)))
}

func TestSelectNothingAndEverything(t *testing.T) {
	g := NewWithT(t)
	declared := index.NewFields(podKind, logr.Discard())
	for _, everything := range []fields.Selector{nil, fields.Everything()} {
		s, err := postings.Resolve(everything, declared)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.Nothing()).To(BeFalse())
		g.Expect(s.Matches(object{pod("a", "b", "", ""), declared})).To(BeTrue())
	}
	s, err := postings.Resolve(fields.Nothing(), declared)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Nothing()).To(BeTrue())
	g.Expect(s.Matches(object{pod("a", "b", "", ""), declared})).To(BeFalse())
}

func TestADeclarationGoesBeforeABuiltinField(t *testing.T) {
	g := NewWithT(t)
	store, declared := newStore(), index.NewFields(podKind, logr.Discard())
	g.Expect(declared.Declare(store, "metadata.name", func(o client.Object) []string { return []string{strings.ToUpper(o.GetName())} })).To(Succeed())
	s, err := postings.Resolve(fields.OneTermEqualSelector("metadata.name", "POD"), declared)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Matches(object{pod("a", "pod", "", ""), declared})).To(BeTrue())
	_, byName := s.Name()
	g.Expect(byName).To(BeFalse(), "the value is not the object's name")
}

func TestSelectionKnowsNameAndNamespace(t *testing.T) {
	g := NewWithT(t)
	s, err := postings.Resolve(fields.ParseSelectorOrDie("metadata.name=a,metadata.namespace!=c,metadata.namespace=b"), index.NewFields(podKind, logr.Discard()))
	g.Expect(err).NotTo(HaveOccurred())
	name, ok := s.Name()
	g.Expect([]any{name, ok}).To(Equal([]any{"a", true}))
	namespace, ok := s.Namespace()
	g.Expect([]any{namespace, ok}).To(Equal([]any{"b", true}))
	_, ok = postings.Selection{}.Namespace()
	g.Expect(ok).To(BeFalse())
}

// TestSelectionAgreesWithAFullScan compares what an index yields, filtered, with
// the fields.Selector's own answer on every object.
func TestSelectionAgreesWithAFullScan(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	g := NewWithT(t)

	store, declared := newStore(), index.NewFields(podKind, logr.Discard())
	g.Expect(declared.Declare(store, "node", byNode)).To(Succeed())
	g.Expect(declared.Declare(store, "policy", byPolicy)).To(Succeed())
	value := func(of string) string { return fmt.Sprint(of, random.IntN(4)) }
	for range 300 {
		g.Expect(store.Add(pod(value("ns"), value("pod"), value("n"), corev1.RestartPolicy(value("p"))))).To(Succeed())
	}
	set := func(p *corev1.Pod) fields.Set {
		return fields.Set{
			"metadata.namespace": p.Namespace, "metadata.name": p.Name,
			"node": p.Spec.NodeName, "policy": string(p.Spec.RestartPolicy),
		}
	}
	prefixes := map[string]string{"metadata.namespace": "ns", "metadata.name": "pod", "node": "n", "policy": "p"}
	names := []string{"metadata.name", "metadata.namespace", "node", "policy"}

	for range 500 {
		var terms []fields.Selector
		for range 1 + random.IntN(3) {
			field := names[random.IntN(len(names))]
			if random.IntN(3) == 0 {
				terms = append(terms, fields.OneTermNotEqualSelector(field, value(prefixes[field])))
			} else {
				terms = append(terms, fields.OneTermEqualSelector(field, value(prefixes[field])))
			}
		}
		selector := fields.AndSelectors(terms...)
		s, err := postings.Resolve(selector, declared)
		g.Expect(err).NotTo(HaveOccurred())

		candidates := store.List()
		for field, value := range s.Equals() {
			candidates, err = store.ByIndex(postings.Name(field), postings.Key("", value))
			g.Expect(err).NotTo(HaveOccurred())
		}
		var got, want []string
		for _, c := range candidates {
			if p := c.(*corev1.Pod); s.Matches(object{p, declared}) {
				got = append(got, p.Namespace+"/"+p.Name)
			}
		}
		for _, o := range store.List() {
			if p := o.(*corev1.Pod); selector.Matches(set(p)) {
				want = append(want, p.Namespace+"/"+p.Name)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		g.Expect(got).To(Equal(want), "selector %s", selector)
	}
}
