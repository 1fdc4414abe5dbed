// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webv1 "github.com/tarn-dev/tarn/examples/kubebuilder/api/v1"
)

var _ = Describe("Website controller", func() {
	It("deploys a site, repairs the Deployment and reports what is available", func() {
		By("creating a Website")
		site := &webv1.Website{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "site-"},
			Spec:       webv1.WebsiteSpec{Image: "nginx:1.29", Replicas: ptr.To[int32](2)},
		}
		Expect(k8sClient.Create(ctx, site)).To(Succeed())
		DeferCleanup(func() { Expect(k8sClient.Delete(ctx, site)).To(Succeed()) })

		key, deployment := client.ObjectKeyFromObject(site), &appsv1.Deployment{}
		Eventually(func(g Gomega) {
			g.Expect(k8sClient.Get(ctx, key, deployment)).To(Succeed())
		}, "10s").Should(Succeed())
		Expect(metav1.IsControlledBy(deployment, site)).To(BeTrue())
		Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal("nginx:1.29"))

		By("scaling the Deployment, which belongs to the controller")
		patch := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"replicas":7}}`))
		Expect(k8sClient.Patch(ctx, deployment, patch)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(k8sClient.Get(ctx, key, deployment)).To(Succeed())
			g.Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
		}, "10s").Should(Succeed())

		By("reporting Pods, as the Deployment controller would do in a cluster")
		patch = client.RawPatch(client.Merge.Type(), []byte(`{"status":{"replicas":2,"readyReplicas":2,"availableReplicas":2}}`))
		Expect(k8sClient.Status().Patch(ctx, deployment, patch)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(k8sClient.Get(ctx, key, site)).To(Succeed())
			g.Expect(site.Status.AvailableReplicas).To(BeEquivalentTo(2))
		}, "10s").Should(Succeed())
	})
})
