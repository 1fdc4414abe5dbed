// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = quantity.MustParse(pairs[i+1])
	}
	return list
}

// limit makes a LimitRange and waits until the server knows it: a real one reads it from an informer.
func limit(ctx context.Context, namespace string, items ...corev1.LimitRangeItem) {
	GinkgoHelper()
	_, err := target.kube.CoreV1().LimitRanges(namespace).Create(ctx, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: items},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// forbidden creates a Pod, dry, until the server refuses it, and returns why.
func forbidden(ctx context.Context, namespace string, p *corev1.Pod) string {
	GinkgoHelper()
	var err error
	Eventually(ctx, func() error {
		_, err = target.kube.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).WithTimeout(patience).WithPolling(fast).Should(HaveOccurred())
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	_, why, _ := strings.Cut(err.Error(), "is forbidden: ")
	return why
}

func claimOf(class *string, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
			Resources: corev1.VolumeResourceRequirements{Requests: resources("storage", size)},
		},
	}
}

var _ = Describe("the admission plugins of limits and defaults", func() {
	It("gives containers what a LimitRange says, and notes it", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		limit(ctx, namespace, corev1.LimitRangeItem{
			Type: corev1.LimitTypeContainer, Default: resources("cpu", "2", "memory", "1Gi"), DefaultRequest: resources("cpu", "1"),
		})
		p := pod("limited")
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "example.com/image:1",
			Resources: corev1.ResourceRequirements{Limits: resources("cpu", "3")}}}
		var made *corev1.Pod
		Eventually(ctx, func(g Gomega) {
			var err error
			made, err = target.kube.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(made.Annotations).NotTo(BeEmpty())
		}).WithTimeout(patience).WithPolling(fast).Should(Succeed())
		Expect(made.Annotations).To(HaveKeyWithValue("kubernetes.io/limit-ranger",
			"LimitRanger plugin set: cpu, memory request for container main; cpu, memory limit for container main; "+
				"memory request for init container first; memory limit for init container first"))
		c := made.Spec.Containers[0].Resources
		Expect(c.Requests.Cpu().String()).To(Equal("1"))
		Expect(c.Limits.Cpu().String()).To(Equal("2"))
		Expect(c.Requests.Memory().String()).To(Equal("1Gi"))
		Expect(made.Spec.InitContainers[0].Resources.Requests.Cpu().String()).To(Equal("3"))
	}, SpecTimeout(patience))

	DescribeTable("refuses Pods that are out of limits", func(ctx SpecContext, item corev1.LimitRangeItem, requests, limits corev1.ResourceList, why string) {
		namespace := newNamespace(ctx)
		limit(ctx, namespace, item)
		p := pod("limited")
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
		Expect(forbidden(ctx, namespace, p)).To(Equal(why))
	},
		Entry("too much", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: resources("cpu", "1")}, resources("cpu", "2"), resources("cpu", "3"),
			"maximum cpu usage per Container is 1, but limit is 3", SpecTimeout(patience)),
		Entry("too little", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: resources("cpu", "1")}, resources("cpu", "100m"), resources("cpu", "200m"),
			"minimum cpu usage per Container is 1, but request is 100m", SpecTimeout(patience)),
		Entry("nothing", corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: resources("cpu", "1"), Max: resources("memory", "1Gi")}, nil, nil,
			"[minimum cpu usage per Pod is 1.  No request is specified, maximum memory usage per Pod is 1Gi.  No limit is specified]", SpecTimeout(patience)),
		Entry("too far apart", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, MaxLimitRequestRatio: resources("cpu", "2")},
			resources("cpu", "1"), resources("cpu", "3"), "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000", SpecTimeout(patience)),
	)

	It("gives claims and Ingresses the newest default class, and refuses to grow what cannot", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		first, second := "first-"+namespace, "second-"+namespace
		marked := map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		for _, name := range []string{second, first} {
			_, err := target.kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: marked}, Provisioner: "example.com/p",
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				Expect(target.kube.StorageV1().StorageClasses().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			})
		}
		_, err := target.kube.NetworkingV1().IngressClasses().Create(ctx, &networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: first, Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}},
			Spec:       networkingv1.IngressClassSpec{Controller: "example.com/c"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(target.kube.NetworkingV1().IngressClasses().Delete(ctx, first, metav1.DeleteOptions{})).To(Succeed())
		})

		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		claims := target.kube.CoreV1().PersistentVolumeClaims(namespace)
		Eventually(ctx, func(g Gomega) {
			made, err := claims.Create(ctx, claimOf(nil, "1Gi"), dry)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ptr.Deref(made.Spec.StorageClassName, "")).To(Or(Equal(first), Equal(second)))
			ingress, err := target.kube.NetworkingV1().Ingresses(namespace).Create(ctx, &networkingv1.Ingress{
				ObjectMeta: metav1.ObjectMeta{Name: "ingress"}, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
					Service: &networkingv1.IngressServiceBackend{Name: "a", Port: networkingv1.ServiceBackendPort{Number: 80}}}},
			}, dry)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ptr.Deref(ingress.Spec.IngressClassName, "")).To(Equal(first))
		}).WithTimeout(patience).WithPolling(fast).Should(Succeed())
		made, err := claims.Create(ctx, claimOf(ptr.To(""), "1Gi"), dry)
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.StorageClassName).To(HaveValue(BeEmpty()))

		_, err = claims.Create(ctx, claimOf(ptr.To(first), "1Gi"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		grow := func() error {
			_, err := claims.Patch(ctx, "claim", types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`), metav1.PatchOptions{})
			return err
		}
		Expect(grow()).To(MatchError(apierrors.IsInvalid, "IsInvalid")) // it is not bound: validation comes before validating admission
		_, err = claims.Patch(ctx, "claim", types.MergePatchType, []byte(`{"status":{"phase":"Bound"}}`), metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		Expect(grow()).To(MatchError(ContainSubstring("the storageclass that provisions the pvc must support resize")))
		_, err = target.kube.StorageV1().StorageClasses().Patch(ctx, first, types.MergePatchType, []byte(`{"allowVolumeExpansion":true}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, grow).WithTimeout(patience).WithPolling(fast).Should(Succeed())
	}, SpecTimeout(patience), Serial)

	It("refuses Pods that the namespace's level of security does not allow", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		_, err := target.kube.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		p := pod("privileged")
		p.Spec.HostNetwork = true
		Expect(forbidden(ctx, namespace, p)).To(HavePrefix(`violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`))
		_, err = target.kube.CoreV1().Pods(namespace).Create(ctx, pod("plain"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = target.kube.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"other"}}}`), metav1.PatchOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))
})
