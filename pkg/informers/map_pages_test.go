// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestARemovedInformerHoldsNoPages: who keeps the informer, as one does who has added a handler
// to it, does not keep what lists have read.
func TestARemovedInformerHoldsNoPages(t *testing.T) {
	g := NewWithT(t)
	o := testOptions()
	o.Name = t.Name()
	m := NewMap(o)
	entry, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"a", "b", "c"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "1"}}
		g.Expect(entry.Informer.GetIndexer().Add(pod)).To(Succeed())
	}
	list := &corev1.PodList{}
	g.Expect(entry.Reader.List(t.Context(), list, client.Limit(1))).To(Succeed())
	token := client.Continue(list.Continue)
	g.Expect(entry.Reader.List(t.Context(), list, client.Limit(1), token)).To(Succeed())
	m.Remove(podKey)
	err = entry.Reader.List(t.Context(), list, client.Limit(1), token)
	g.Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "%v", err)
}
