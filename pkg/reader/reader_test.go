// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"reflect"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestGetReturnsTheCallersOwnCopy(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		stored := pod("a", "one", 1)
		f := pods(t, store, stored)
		got := &corev1.Pod{Status: corev1.PodStatus{Phase: "left over"}}
		key := client.ObjectKey{Namespace: "a", Name: "one"}
		f.Expect(f.Get(t.Context(), key, got)).To(Succeed())

		want := stored.DeepCopy()
		want.SetGroupVersionKind(podKind)
		f.Expect(got).To(Equal(want), "all of the target is replaced, and the kind is filled in")
		got.Labels["name"] = "changed"
		f.Expect(f.Get(t.Context(), key, got)).To(Succeed())
		f.Expect(got.Labels).To(HaveKeyWithValue("name", "one"))
		f.Expect(stored.Labels).To(HaveKeyWithValue("name", "one"))
		f.Expect(stored.Kind).To(BeEmpty())
	})
}

func TestGetErrors(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("a", "one", 1))
		key := client.ObjectKey{Namespace: "a", Name: "one"}

		for _, none := range []client.ObjectKey{{Namespace: "b", Name: "one"}, {Name: "one"}, {Namespace: "a", Name: "on"}} {
			err := f.Get(t.Context(), none, &corev1.Pod{})
			f.Expect(apierrors.IsNotFound(err)).To(BeTrue())
			f.Expect(err).To(MatchError(ContainSubstring(`Pod "` + none.Name + `" not found`)))
		}
		f.Expect(f.Get(t.Context(), key, &corev1.Node{})).To(MatchError(And(
			ContainSubstring("*v1.Pod"), ContainSubstring("*v1.Node"))))
	})
}

// plain is what a transform might store in place of an object.
type plain struct{ metav1.ObjectMeta }

func TestAStoreOfSomethingElseIsAnError(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store)
		f.store.put(&plain{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}})
		f.Expect(f.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &corev1.Pod{})).
			To(MatchError(And(ContainSubstring("plain"), ContainSubstring("transform"))))
		f.Expect(f.List(t.Context(), &corev1.PodList{})).To(MatchError(ContainSubstring("transform")))
	})
}

func TestGetIgnoresTheNamespaceOfAClusterScopedKind(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := newFixture(t, store, nodesKind, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		for _, namespace := range []string{"", "any"} {
			got := &corev1.Node{}
			f.Expect(f.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "n1"}, got)).To(Succeed())
			f.Expect(got.Name).To(Equal("n1"))
		}
	})
}

func TestReadsShareWhenAsked(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		stored := pod("a", "one", 1)
		key := client.ObjectKeyFromObject(stored)
		sharing := podsKind
		sharing.share = true
		for _, c := range []struct {
			kind kind
			get  []client.GetOption
			list []client.ListOption
		}{
			{kind: sharing},
			{podsKind, []client.GetOption{client.UnsafeDisableDeepCopy}, []client.ListOption{client.UnsafeDisableDeepCopy}},
		} {
			f := newFixture(t, store, c.kind, stored)
			got, listed := &corev1.Pod{}, &corev1.PodList{}
			f.Expect(f.Get(t.Context(), key, got, c.get...)).To(Succeed())
			f.Expect(f.List(t.Context(), listed, c.list...)).To(Succeed())
			f.Expect(got).To(Equal(stored), "what is shared is not written to: it gets no kind")
			f.Expect(&listed.Items[0]).To(Equal(stored))
			labels := func(p *corev1.Pod) uintptr { return reflect.ValueOf(p.Labels).Pointer() }
			f.Expect(labels(got)).To(Equal(labels(&listed.Items[0])))
			if store != "flat engine" { // which makes one object for all such reads
				f.Expect(labels(got)).To(Equal(labels(stored)))
			}
		}
	})
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
	onEveryStore(t, func(t *testing.T, store string) {
		stored := &embedding{Pod: *pod("a", "1", 1), Extra: []string{"kept"}}
		f := newFixture(t, store, kind{gvk: podKind, scope: meta.RESTScopeNameNamespace, example: &embedding{}}, stored)
		got := &embedding{}
		for range 2 {
			f.Expect(f.Get(t.Context(), client.ObjectKeyFromObject(stored), got)).To(Succeed())
			f.Expect(got.Extra).To(Equal([]string{"kept"}))
			got.Extra[0] = "changed"
		}
		f.Expect(stored.Extra).To(Equal([]string{"kept"}))
	})
}
