// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// names returns the names in a list.
func names(list runtime.Object) []string {
	GinkgoHelper()
	var found []string
	Expect(meta.EachListItem(list, func(obj runtime.Object) error {
		accessor, err := meta.Accessor(obj)
		if err == nil {
			found = append(found, accessor.GetName())
		}
		return err
	})).To(Succeed())
	return found
}

// deployment returns a Deployment with two replicas.
func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod(name).Spec},
		},
	}
}

var _ = Describe("a list", func() {
	const selector = "value" // a real cluster adds a ConfigMap of its own to each namespace

	It("comes in pages that show one moment", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		createConfigMaps(ctx, ns, 5)
		maps := target.kube.CoreV1().ConfigMaps(ns)
		first, err := maps.List(ctx, metav1.ListOptions{Limit: 2, LabelSelector: selector})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(first)).To(Equal([]string{"cm-0", "cm-1"}))
		Expect(first.Continue).NotTo(BeEmpty())

		Expect(maps.Delete(ctx, "cm-3", metav1.DeleteOptions{})).To(Succeed())
		second, err := maps.List(ctx, metav1.ListOptions{Limit: 2, LabelSelector: selector, Continue: first.Continue})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(second)).To(Equal([]string{"cm-2", "cm-3"}))
		Expect(second.ResourceVersion).To(Equal(first.ResourceVersion))
		last, err := maps.List(ctx, metav1.ListOptions{Limit: 2, LabelSelector: selector, Continue: second.Continue})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(last)).To(Equal([]string{"cm-4"}))
		Expect(last.Continue).To(BeEmpty())
	}, SpecTimeout(patience))

	It("says how many items are left", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		pods := target.kube.CoreV1().Pods(ns)
		for _, name := range []string{"a", "b", "c"} {
			_, err := pods.Create(ctx, pod(name), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.RemainingItemCount).To(HaveValue(BeEquivalentTo(2)))
	}, SpecTimeout(patience))

	It("refuses a continue token that is none", func(ctx SpecContext) {
		_, err := target.kube.CoreV1().ConfigMaps(newNamespace(ctx)).List(ctx, metav1.ListOptions{Limit: 1, Continue: "nonsense"})
		Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("is consistent without a resource version", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		made := createConfigMaps(ctx, ns, 3)
		list, err := target.kube.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{LabelSelector: selector})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(list)).To(HaveLen(len(made)))
	}, SpecTimeout(patience))

	It("is at least as new as a resource version, or exactly as old", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		made := createConfigMaps(ctx, ns, 3)
		maps := target.kube.CoreV1().ConfigMaps(ns)
		newer, err := maps.List(ctx, metav1.ListOptions{
			LabelSelector: selector, ResourceVersion: made[2].ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(newer)).To(Equal([]string{"cm-0", "cm-1", "cm-2"}))
		exact, err := maps.List(ctx, metav1.ListOptions{
			LabelSelector: selector, ResourceVersion: made[1].ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(exact)).To(Equal([]string{"cm-0", "cm-1"}))
		Expect(exact.ResourceVersion).To(Equal(made[1].ResourceVersion))
		_, err = maps.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		Expect(err).NotTo(HaveOccurred())
		_, err = maps.List(ctx, metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "a match needs a version: %v", err)
	}, SpecTimeout(patience))

	It("obeys label and field selectors", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		createConfigMaps(ctx, ns, 3)
		maps := target.kube.CoreV1().ConfigMaps(ns)
		list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "value notin (1),value"})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(list)).To(Equal([]string{"cm-0", "cm-2"}))
		list, err = maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=cm-1"})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(list)).To(Equal([]string{"cm-1"}))
		_, err = maps.List(ctx, metav1.ListOptions{FieldSelector: "data.key=1"})
		Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)

		bound := pod("bound")
		bound.Spec.NodeName = "node-1"
		for _, p := range []*corev1.Pod{bound, pod("unbound")} {
			_, err := target.kube.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		pods, err := target.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=node-1,metadata.namespace=" + ns})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(pods)).To(Equal([]string{"bound"}))
	}, SpecTimeout(patience))
})
