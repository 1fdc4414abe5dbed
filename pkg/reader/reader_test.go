// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/reader"
)

var (
	podKind  = corev1.SchemeGroupVersion.WithKind("Pod")
	nodeKind = corev1.SchemeGroupVersion.WithKind("Node")
)

// fixture is a reader over a store that the test fills.
type fixture struct {
	*reader.CacheReader
	store  toolscache.Indexer
	fields *index.Fields
	*WithT
}

func newFixture(t *testing.T, gvk schema.GroupVersionKind, scope meta.RESTScopeName, share bool, objects ...client.Object) fixture {
	t.Helper()
	f := fixture{WithT: NewWithT(t), fields: index.NewFields(gvk, logr.Discard())}
	f.store = toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
		toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
	})
	f.CacheReader = reader.New(reader.Options{
		Store: reader.NewIndexer(f.store, f.fields), GVK: gvk, Scope: scope, Fields: f.fields, DisableDeepCopy: share,
	})
	for _, obj := range objects {
		f.Expect(f.store.Add(obj)).To(Succeed())
	}
	return f
}

func pods(t *testing.T, objects ...client.Object) fixture {
	t.Helper()
	return newFixture(t, podKind, meta.RESTScopeNameNamespace, false, objects...)
}

func pod(namespace, name string, version int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, ResourceVersion: strconv.Itoa(version),
			Labels: map[string]string{"name": name},
		},
		Spec: corev1.PodSpec{NodeName: "node-of-" + name},
	}
}

func names(list *corev1.PodList) []string {
	found := []string{}
	for _, p := range list.Items {
		found = append(found, p.Namespace+"/"+p.Name)
	}
	return found
}

func TestGetReturnsTheCallersOwnCopy(t *testing.T) {
	stored := pod("a", "one", 1)
	f := pods(t, stored)
	got := &corev1.Pod{Status: corev1.PodStatus{Phase: "left over"}}
	f.Expect(f.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, got)).To(Succeed())

	want := stored.DeepCopy()
	want.SetGroupVersionKind(podKind)
	f.Expect(got).To(Equal(want), "all of the target is replaced, and the kind is filled in")
	got.Labels["name"] = "changed"
	f.Expect(stored.Labels).To(HaveKeyWithValue("name", "one"))
	f.Expect(stored.Kind).To(BeEmpty())
}

func TestGetErrors(t *testing.T) {
	f := pods(t, pod("a", "one", 1))
	key := client.ObjectKey{Namespace: "a", Name: "one"}

	err := f.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "one"}, &corev1.Pod{})
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	f.Expect(err).To(MatchError(ContainSubstring(`Pod "one" not found`)))

	f.Expect(f.Get(t.Context(), key, &corev1.Node{})).To(MatchError(And(
		ContainSubstring("*v1.Pod"), ContainSubstring("*v1.Node"))))
}

// plain is what a transform might store in place of an object.
type plain struct{ metav1.ObjectMeta }

func TestAStoreOfSomethingElseIsAnError(t *testing.T) {
	f := pods(t)
	f.Expect(f.store.Add(&plain{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}})).To(Succeed())
	f.Expect(f.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &corev1.Pod{})).
		To(MatchError(And(ContainSubstring("plain"), ContainSubstring("transform"))))
	f.Expect(f.List(t.Context(), &corev1.PodList{})).To(MatchError(ContainSubstring("transform")))
}

func TestGetIgnoresTheNamespaceOfAClusterScopedKind(t *testing.T) {
	f := newFixture(t, nodeKind, meta.RESTScopeNameRoot, false, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	for _, namespace := range []string{"", "any"} {
		got := &corev1.Node{}
		f.Expect(f.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "n1"}, got)).To(Succeed())
		f.Expect(got.Name).To(Equal("n1"))
	}
}

func TestReadsShareWithTheStoreWhenAsked(t *testing.T) {
	key := client.ObjectKey{Namespace: "a", Name: "one"}
	shared := func(f fixture, stored *corev1.Pod, get []client.GetOption, list []client.ListOption) {
		got, listed := &corev1.Pod{}, &corev1.PodList{}
		f.Expect(f.Get(t.Context(), key, got, get...)).To(Succeed())
		f.Expect(f.List(t.Context(), listed, list...)).To(Succeed())
		for _, p := range []*corev1.Pod{got, &listed.Items[0]} {
			f.Expect(reflect.ValueOf(p.Labels).Pointer()).To(Equal(reflect.ValueOf(stored.Labels).Pointer()))
			f.Expect(p.Kind).To(BeEmpty(), "what is shared is not written to")
		}
	}
	stored := pod("a", "one", 1)
	shared(newFixture(t, podKind, meta.RESTScopeNameNamespace, true, stored), stored, nil, nil)
	shared(pods(t, stored), stored,
		[]client.GetOption{client.UnsafeDisableDeepCopy}, []client.ListOption{client.UnsafeDisableDeepCopy})
}

func TestListIsSortedAndComplete(t *testing.T) {
	f := pods(t, pod("b", "x", 3), pod("a", "y", 1), pod("a-b", "a", 4), pod("a", "x", 2))
	list := &corev1.PodList{}
	f.Expect(f.List(t.Context(), list, client.InNamespace(""), client.MatchingLabelsSelector{Selector: labels.Everything()})).To(Succeed())
	f.Expect(names(list)).To(Equal([]string{"a/x", "a/y", "a-b/a", "b/x"}))
	f.Expect(list.ResourceVersion).To(Equal("2"), "the version of the last change that the store saw")
	f.Expect(list.Continue).To(BeEmpty())
	for i := range list.Items {
		f.Expect(list.Items[i].GroupVersionKind()).To(Equal(podKind))
	}
	list.Items[0].Labels["name"] = "changed"
	again := &corev1.PodList{}
	f.Expect(f.List(t.Context(), again)).To(Succeed())
	f.Expect(again.Items[0].Labels).To(HaveKeyWithValue("name", "x"))
}

func TestListOfNothingIsEmptyAndNotNil(t *testing.T) {
	f := pods(t, pod("a", "x", 1))
	list := &corev1.PodList{Items: make([]corev1.Pod, 3), ListMeta: metav1.ListMeta{Continue: "left over"}}
	f.Expect(f.List(t.Context(), list, client.InNamespace("b"))).To(Succeed())
	f.Expect(list.Items).To(And(BeEmpty(), Not(BeNil())))
	f.Expect(list.Continue).To(BeEmpty())
}

func TestListLimitAndContinue(t *testing.T) {
	f := pods(t, pod("a", "3", 1), pod("a", "1", 2), pod("a", "2", 3))
	list := &corev1.PodList{}
	f.Expect(f.List(t.Context(), list, client.Limit(2))).To(Succeed())
	f.Expect(names(list)).To(Equal([]string{"a/1", "a/2"}))
	f.Expect(list.RemainingItemCount).To(HaveValue(Equal(int64(1))))
	f.Expect(f.List(t.Context(), list, client.Limit(2), client.Continue(list.Continue))).To(Succeed())
	f.Expect(names(list)).To(Equal([]string{"a/3"}))
	f.Expect(list.Continue).To(BeEmpty())
	f.Expect(list.RemainingItemCount).To(BeNil())
	f.Expect(f.List(t.Context(), list, client.Limit(3))).To(Succeed())
	f.Expect(names(list)).To(HaveLen(3))
	f.Expect(list.Continue).To(BeEmpty())
}

func TestListContinueErrors(t *testing.T) {
	f := pods(t, pod("a", "1", 1))
	list := &corev1.PodList{}
	f.Expect(f.List(t.Context(), list)).To(Succeed())
	f.Expect(list.Continue).To(Equal("continue-not-supported"), "as controller-runtime's suite asserts")
	f.Expect(f.List(t.Context(), list, client.Continue(list.Continue))).To(MatchError("continue list option is not supported by the cache"))
	for _, bad := range []string{"token", "e30"} {
		err := f.List(t.Context(), list, client.Continue(bad))
		f.Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
		f.Expect(err).To(MatchError(ContainSubstring("continue key is not valid")))
	}
}

func TestListRefusesANamespaceForAClusterScopedKind(t *testing.T) {
	f := newFixture(t, nodeKind, meta.RESTScopeNameRoot, false)
	f.Expect(f.List(t.Context(), &corev1.NodeList{}, client.InNamespace("a"))).To(MatchError(And(
		ContainSubstring("Node"), ContainSubstring("cluster-scoped"), ContainSubstring("without a namespace"))))
}

func TestListRefusesAnotherListType(t *testing.T) {
	f := pods(t, pod("a", "1", 1))
	f.Expect(f.List(t.Context(), &corev1.NodeList{})).To(MatchError(And(
		ContainSubstring("Pod"), ContainSubstring("*v1.NodeList"))))
	f.Expect(f.List(t.Context(), &unstructured.Unstructured{})).To(MatchError(ContainSubstring("cannot list into *unstructured.Unstructured")))
}

func TestListIntoOtherShapes(t *testing.T) {
	f := pods(t, pod("a", "1", 1))
	mixed := &corev1.List{}
	f.Expect(f.List(t.Context(), mixed)).To(Succeed())
	f.Expect(mixed.Items).To(HaveLen(1))
	f.Expect(mixed.Items[0].Object.(*corev1.Pod).Name).To(Equal("1"))

	gvk := schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "UnconventionalListType"}
	stored := &controllertest.UnconventionalListType{Spec: "stored"}
	stored.SetName("n")
	p := newFixture(t, gvk, meta.RESTScopeNameRoot, false, stored)
	pointers := &controllertest.UnconventionalListTypeList{}
	p.Expect(p.List(t.Context(), pointers)).To(Succeed())
	p.Expect(pointers.Items).To(HaveLen(1))
	p.Expect(pointers.Items[0]).NotTo(BeIdenticalTo(stored))
	p.Expect(pointers.Items[0].Spec).To(Equal("stored"))
	p.Expect(p.List(t.Context(), pointers, client.UnsafeDisableDeepCopy)).To(Succeed())
	p.Expect(pointers.Items[0]).To(BeIdenticalTo(stored))
}

// embedding has corev1.Pod's DeepCopyInto promoted to it, which must not be taken
// for its own.
type embedding struct {
	corev1.Pod
	Extra []string
}

func (e *embedding) DeepCopyObject() runtime.Object {
	return &embedding{Pod: *e.DeepCopy(), Extra: slices.Clone(e.Extra)}
}

func TestGetOfATypeThatEmbedsAnother(t *testing.T) {
	stored := &embedding{Pod: *pod("a", "1", 1), Extra: []string{"kept"}}
	f := pods(t, stored)
	got := &embedding{}
	f.Expect(f.Get(t.Context(), client.ObjectKeyFromObject(stored), got)).To(Succeed())
	f.Expect(got.Extra).To(Equal([]string{"kept"}))
	got.Extra[0] = "changed"
	f.Expect(stored.Extra).To(Equal([]string{"kept"}))
}

func TestListByNameNeedsNoScan(t *testing.T) {
	f := pods(t, pod("a", "1", 1), pod("b", "1", 2), pod("a", "2", 3))
	list := &corev1.PodList{}
	f.Expect(f.List(t.Context(), list, client.MatchingFields{"metadata.name": "1"})).To(Succeed())
	f.Expect(names(list)).To(Equal([]string{"a/1", "b/1"}))
	f.Expect(f.List(t.Context(), list, client.InNamespace("b"), client.MatchingFields{"metadata.name": "1"})).To(Succeed())
	f.Expect(names(list)).To(Equal([]string{"b/1"}))
	f.Expect(f.List(t.Context(), list, client.InNamespace("b"), client.MatchingFields{"metadata.name": "2"})).To(Succeed())
	f.Expect(names(list)).To(BeEmpty())
	f.Expect(f.List(t.Context(), list, client.MatchingFieldsSelector{Selector: fields.Nothing()})).To(Succeed())
	f.Expect(names(list)).To(BeEmpty())
}

func TestListAcrossReaders(t *testing.T) {
	one, two := pods(t, pod("b", "1", 9), pod("d", "1", 10)), pods(t, pod("a", "1", 7), pod("c", "1", 8))
	list := &corev1.PodList{}
	one.Expect(reader.List(t.Context(), list, &client.ListOptions{Limit: 3}, one.CacheReader, two.CacheReader)).To(Succeed())
	one.Expect(names(list)).To(Equal([]string{"a/1", "b/1", "c/1"}))
	one.Expect(list.ResourceVersion).To(Equal("8"), "the version that both have reached")
}

// TestListAgreesWithAFullScan compares lists by every combination of options with
// what the options say of each object.
func TestListAgreesWithAFullScan(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := pods(t)
	byNode := func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }
	f.Expect(f.fields.Declare(f.store, "spec.nodeName", byNode)).To(Succeed())
	value := func(of string) string { return of + strconv.Itoa(random.IntN(3)) }
	for i := range 200 {
		p := pod(value("ns"), fmt.Sprint("pod", i), i+1)
		p.Labels = map[string]string{"app": value("app")}
		p.Spec.NodeName = value("node")
		f.Expect(f.store.Add(p)).To(Succeed())
	}
	for range 200 {
		o := &client.ListOptions{Limit: int64(random.IntN(5) * 10)}
		if random.IntN(2) == 0 {
			o.Namespace = value("ns")
		}
		if random.IntN(2) == 0 {
			o.LabelSelector = labels.SelectorFromSet(labels.Set{"app": value("app")})
		}
		if random.IntN(2) == 0 {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", value("node"))
		}
		want := []string{}
		for _, obj := range f.store.List() {
			p := obj.(*corev1.Pod)
			if (o.Namespace == "" || p.Namespace == o.Namespace) &&
				(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(p.Labels))) &&
				(o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName})) {
				want = append(want, p.Namespace+"/"+p.Name)
			}
		}
		slices.Sort(want)
		if o.Limit > 0 && len(want) > int(o.Limit) {
			want = want[:o.Limit]
		}
		list := &corev1.PodList{}
		f.Expect(f.List(t.Context(), list, o)).To(Succeed())
		f.Expect(names(list)).To(Equal(want), "%+v", o)
	}
}
