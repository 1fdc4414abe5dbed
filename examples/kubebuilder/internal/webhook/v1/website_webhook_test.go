// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	webv1 "github.com/tarn-dev/tarn/examples/kubebuilder/api/v1"
)

var _ = Describe("Website webhooks", func() {
	create := func(image string) (*webv1.Website, error) {
		site := &webv1.Website{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "site-"},
			Spec:       webv1.WebsiteSpec{Image: image},
		}
		return site, k8sClient.Create(ctx, site)
	}
	It("fill in what a Website leaves out", func() {
		site, err := create("")
		Expect(err).NotTo(HaveOccurred())
		Expect(site.Spec.Image).To(Equal("nginx:1.29"))
		Expect(site.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)), "from the schema of the CRD")
	})
	It("refuse an image without a tag", func() {
		_, err := create("nginx")
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`"nginx" has no tag`)))

		site, err := create("nginx:1.29")
		Expect(err).NotTo(HaveOccurred())
		site.Spec.Image = "nginx"
		Expect(k8sClient.Update(ctx, site)).To(MatchError(ContainSubstring(`"nginx" has no tag`)))
	})
})
