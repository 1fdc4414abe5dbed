// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestALookLeavesNoTrace looks at pages until lists would long have paid for an index, and taken all
// states that a store keeps.
func TestALookLeavesNoTrace(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, numbered(300)...)
		mine := &corev1.PodList{}
		f.Expect(f.List(t.Context(), mine, client.Limit(10))).To(Succeed())
		before := f.Stats()
		for _, selector := range []labels.Selector{nil, labels.SelectorFromSet(labels.Set{"name": "pod0005"})} {
			for range 500 {
				page := &corev1.PodList{}
				f.Expect(f.CacheReader.Look(t.Context(), page, &client.ListOptions{Limit: 5, LabelSelector: selector})).To(Succeed())
				f.Expect(page.Items).NotTo(BeEmpty())
			}
		}
		f.Expect(f.Stats()).To(Equal(before))
		f.Expect(f.List(t.Context(), mine, client.Limit(10), client.Continue(mine.Continue))).To(Succeed(), "the state of a list of the program is there")
	})
}

// TestPagesOfALookAreOfTheStateOfTheirTime reads the kind to its end while it changes.
func TestPagesOfALookAreOfTheStateOfTheirTime(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("a", "1", 1), pod("a", "2", 2), pod("a", "3", 3), pod("b", "4", 4))
		page, o := &corev1.PodList{}, &client.ListOptions{Limit: 2}
		f.Expect(f.CacheReader.Look(t.Context(), page, o)).To(Succeed())
		f.Expect(names(page)).To(Equal([]string{"a/1", "a/2"}))
		f.Expect(page.RemainingItemCount).To(HaveValue(Equal(int64(2))))
		token := page.Continue
		f.store.remove(pod("a", "2", 2))
		f.store.remove(pod("a", "3", 3))
		f.store.put(pod("b", "5", 6))
		f.store.put(pod("b", "6", 7))
		o.Continue = token
		f.Expect(f.CacheReader.Look(t.Context(), page, o)).To(Succeed())
		f.Expect(names(page)).To(Equal([]string{"b/4", "b/5"}))
		f.Expect(page.RemainingItemCount).To(HaveValue(Equal(int64(1))))
		o.Continue = page.Continue
		f.Expect(f.CacheReader.Look(t.Context(), page, o)).To(Succeed())
		f.Expect(names(page)).To(Equal([]string{"b/6"}))
		f.Expect(page.Continue).To(BeEmpty())
		f.Expect(page.RemainingItemCount).To(BeNil())

		f.Expect(apierrors.IsBadRequest(f.List(t.Context(), page, client.Limit(2), client.Continue(token)))).To(BeTrue(), "List takes no token of Look")
		f.Expect(f.List(t.Context(), page, client.Limit(1))).To(Succeed())
		for _, o.Continue = range []string{page.Continue, "nonsense"} {
			f.Expect(apierrors.IsBadRequest(f.CacheReader.Look(t.Context(), page, o))).To(BeTrue(), o.Continue)
		}
	})
}
