// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/tarn-dev/tarn/pkg/reader"
)

func TestListIsSortedAndComplete(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("b", "x", 1), pod("a", "y", 2), pod("a-b", "a", 3), pod("a", "x", 4))
		list := &corev1.PodList{}
		f.Expect(f.List(t.Context(), list, client.InNamespace(""), client.MatchingLabelsSelector{Selector: labels.Everything()})).To(Succeed())
		f.Expect(names(list)).To(Equal([]string{"a/x", "a/y", "a-b/a", "b/x"}))
		f.Expect(list.ResourceVersion).To(Equal("4"), "the version of the last change that the store saw")
		f.Expect(list.Continue).To(BeEmpty())
		for i := range list.Items {
			f.Expect(list.Items[i].GroupVersionKind()).To(Equal(podKind))
		}
		list.Items[0].Labels["name"] = "changed"
		again := &corev1.PodList{}
		f.Expect(f.List(t.Context(), again)).To(Succeed())
		f.Expect(again.Items[0].Labels).To(HaveKeyWithValue("name", "x"))
		f.Expect(f.List(t.Context(), again, client.InNamespace("a"))).To(Succeed())
		f.Expect(names(again)).To(Equal([]string{"a/x", "a/y"}))
	})
}

func TestListOfAClusterScopedKind(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := newFixture(t, store, nodesKind)
		for _, name := range []string{"c", "a", "b"} {
			f.store.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"is": name}}})
		}
		found := func(opts ...client.ListOption) []string {
			list, names := &corev1.NodeList{}, []string{}
			f.Expect(f.List(t.Context(), list, opts...)).To(Succeed())
			for _, n := range list.Items {
				names = append(names, n.Name)
			}
			return names
		}
		f.Expect(found()).To(Equal([]string{"a", "b", "c"}))
		f.Expect(found(client.MatchingLabels{"is": "b"})).To(Equal([]string{"b"}))
		f.Expect(found(client.MatchingFields{"metadata.name": "c"})).To(Equal([]string{"c"}))
		f.Expect(found(client.MatchingFields{"metadata.namespace": ""})).To(Equal([]string{"a", "b", "c"}))
		f.Expect(found(client.MatchingFields{"metadata.namespace": "a"})).To(BeEmpty())
		f.Expect(f.List(t.Context(), &corev1.NodeList{}, client.InNamespace("a"))).To(MatchError(And(
			ContainSubstring("Node"), ContainSubstring("cluster-scoped"), ContainSubstring("without a namespace"))))
	})
}

func TestListOfNothingIsEmptyAndNotNil(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("a", "x", 1))
		for _, nothing := range []client.ListOption{
			client.InNamespace("b"),
			client.MatchingLabelsSelector{Selector: labels.Nothing()},
			client.MatchingFieldsSelector{Selector: fields.Nothing()},
		} {
			list := &corev1.PodList{Items: make([]corev1.Pod, 3), ListMeta: metav1.ListMeta{Continue: "left over"}}
			f.Expect(f.List(t.Context(), list, nothing)).To(Succeed())
			f.Expect(list.Items).To(And(BeEmpty(), Not(BeNil())))
			f.Expect(list.Continue).To(BeEmpty())
		}
	})
}

func TestListRefusesAnotherListType(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("a", "1", 1))
		f.Expect(f.List(t.Context(), &corev1.NodeList{})).To(MatchError(And(
			ContainSubstring("Pod"), ContainSubstring("*v1.NodeList"))))
		f.Expect(f.List(t.Context(), &unstructured.Unstructured{})).To(MatchError(ContainSubstring("cannot list into *unstructured.Unstructured")))
	})
}

func TestListIntoOtherShapes(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("a", "1", 1))
		mixed := &corev1.List{}
		for range 2 {
			f.Expect(f.List(t.Context(), mixed)).To(Succeed())
			f.Expect(mixed.Items).To(HaveLen(1))
			listed := mixed.Items[0].Object.(*corev1.Pod)
			f.Expect(listed.Labels).To(HaveKeyWithValue("name", "1"))
			f.Expect(listed.GroupVersionKind()).To(Equal(podKind))
			listed.Labels["name"] = "changed"
		}

		gvk := schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "UnconventionalListType"}
		stored := &controllertest.UnconventionalListType{Spec: "stored"}
		stored.SetName("n")
		p := newFixture(t, store, kind{gvk: gvk, scope: meta.RESTScopeNameRoot, example: &controllertest.UnconventionalListType{}}, stored)
		pointers, again := &controllertest.UnconventionalListTypeList{}, &controllertest.UnconventionalListTypeList{}
		p.Expect(p.List(t.Context(), pointers)).To(Succeed())
		p.Expect(pointers.Items).To(HaveLen(1))
		p.Expect(pointers.Items[0]).NotTo(BeIdenticalTo(stored))
		p.Expect(pointers.Items[0].Spec).To(Equal("stored"))
		p.Expect(p.List(t.Context(), pointers, client.UnsafeDisableDeepCopy)).To(Succeed())
		p.Expect(p.List(t.Context(), again, client.UnsafeDisableDeepCopy)).To(Succeed())
		p.Expect(pointers.Items[0]).To(BeIdenticalTo(again.Items[0]))
		if store != "flat engine" {
			p.Expect(pointers.Items[0]).To(BeIdenticalTo(stored))
		}
	})
}

func TestListByName(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("a", "1", 1), pod("b", "1", 2), pod("a", "2", 3))
		for _, c := range []struct {
			namespace, name string
			want            []string
		}{
			{"", "1", []string{"a/1", "b/1"}},
			{"b", "1", []string{"b/1"}},
			{"b", "2", []string{}},
		} {
			list := &corev1.PodList{}
			f.Expect(f.List(t.Context(), list, client.InNamespace(c.namespace), client.MatchingFields{"metadata.name": c.name})).To(Succeed())
			f.Expect(names(list)).To(Equal(c.want))
		}
	})
}

// counting is a selector that no index answers; it counts the objects that it is asked
// about.
type counting struct {
	labels.Selector
	asked *int
}

func newCounting(g *WithT) counting {
	selector, err := labels.Parse("!none")
	g.Expect(err).NotTo(HaveOccurred())
	return counting{selector, new(int)}
}

func (c counting) Matches(l labels.Labels) bool {
	*c.asked++
	return c.Selector.Matches(l)
}

// TestAListOfOneNameLooksAtOneObject if name and namespace say which.
func TestAListOfOneNameLooksAtOneObject(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		namespaced, nodes := pods(t, store), newFixture(t, store, nodesKind)
		for i := range 50 {
			namespaced.store.put(pod("a", fmt.Sprint("one", i), i+1))
			nodes.store.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("one", i)}})
		}
		for _, c := range []struct {
			of   fixture
			in   string
			by   client.MatchingFields
			want int
		}{
			{namespaced, "a", client.MatchingFields{"metadata.name": "one7"}, 1},
			{namespaced, "", client.MatchingFields{"metadata.name": "one7", "metadata.namespace": "a"}, 1},
			{namespaced, "b", client.MatchingFields{"metadata.name": "one7"}, 0},
			{namespaced, "a", client.MatchingFields{"metadata.name": "one7", "metadata.namespace": "b"}, 0},
			{nodes, "", client.MatchingFields{"metadata.name": "one7"}, 1},
			{nodes, "", client.MatchingFields{"metadata.name": "one"}, 0},
			{nodes, "", client.MatchingFields{"metadata.name": "one7", "metadata.namespace": ""}, 1},
			{nodes, "", client.MatchingFields{"metadata.name": "one7", "metadata.namespace": "a"}, 0},
		} {
			list, selector := &metav1.PartialObjectMetadataList{}, newCounting(c.of.WithT)
			c.of.Expect(c.of.List(t.Context(), list, client.InNamespace(c.in), c.by, client.MatchingLabelsSelector{Selector: selector})).To(Succeed())
			c.of.Expect(list.Items).To(HaveLen(c.want), "%v", c.by)
			c.of.Expect(*selector.asked).To(BeNumerically("<=", 1), "%v", c.by)
		}
	})
}

func TestListByAFieldThatIsNotIndexed(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store)
		f.Expect(f.List(t.Context(), &corev1.PodList{}, client.MatchingFields{"spec.nodeName": "n"})).
			To(MatchError(ContainSubstring(`field "spec.nodeName" of Pod (v1) is not indexed`)))
	})
}

func TestListAcrossReaders(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		one, two := pods(t, store, pod("b", "1", 9), pod("d", "1", 10)), pods(t, store, pod("a", "1", 7), pod("c", "1", 8))
		list := &corev1.PodList{}
		one.Expect(reader.List(t.Context(), list, &client.ListOptions{Limit: 3}, one.CacheReader, two.CacheReader)).To(Succeed())
		one.Expect(names(list)).To(Equal([]string{"a/1", "b/1", "c/1"}))
		one.Expect(list.ResourceVersion).To(Equal("8"), "the version that both have reached")
		one.Expect(list.RemainingItemCount).To(HaveValue(Equal(int64(1))))
	})
}

func TestListContinueErrors(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("a", "1", 1))
		list := &corev1.PodList{}
		f.Expect(f.List(t.Context(), list)).To(Succeed())
		f.Expect(list.Continue).To(Equal("continue-not-supported"), "as controller-runtime's suite asserts")
		f.Expect(f.List(t.Context(), list, client.Continue(list.Continue))).To(MatchError("continue list option is not supported by the cache"))
		// The last ones are "{}" and a token that names no state.
		for _, bad := range []string{"token", "e30", "eyJzdGF0ZXMiOlswXX0"} {
			err := f.List(t.Context(), list, client.Continue(bad))
			f.Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
			f.Expect(err).To(MatchError(ContainSubstring("continue key is not valid")))
		}
	})
}
