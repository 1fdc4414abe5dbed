// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("The controllers of what each namespace has", func() {
	DescribeTable("make the ServiceAccount default, and make it again", func(ctx SpecContext, name string) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceFor(ctx, name), Name: "default"}}
		Eventually(ctx, read(ctx, account)).Should(Succeed())
		Expect(api.Delete(ctx, account)).To(Succeed())
		Eventually(ctx, gone(ctx, account)).Should(Succeed())
		Eventually(ctx, read(ctx, account)).Should(Succeed())
	},
		Entry("in a new namespace", "", SpecTimeout(patience)),
		Entry("in one that was there before", "kube-system", SpecTimeout(patience)),
	)

	DescribeTable("publish the certificate of the server, and keep it", func(ctx SpecContext, name string) {
		published := configMap(namespaceFor(ctx, name), "kube-root-ca.crt")
		Eventually(ctx, read(ctx, published)).Should(Succeed())
		Expect(published.Data).To(HaveLen(1))
		Expect(published.Data).To(HaveKeyWithValue("ca.crt", string(env.Config().CAData)))
		Expect(published.Annotations).To(HaveKeyWithValue("kubernetes.io/description", HavePrefix("Contains a CA bundle that can be used to verify")))
		want := published.DeepCopy()

		change(ctx, published, func() {
			published.Data = map[string]string{"ca.crt": "forged", "more": "data"}
			published.Annotations = map[string]string{"example.com/mine": "stays"}
		})
		Eventually(ctx, func() map[string]string {
			Expect(read(ctx, published)()).To(Succeed())
			return published.Data
		}).Should(Equal(want.Data))
		Expect(published.Annotations).To(And(HaveKey("kubernetes.io/description"), HaveKeyWithValue("example.com/mine", "stays")))

		Expect(api.Delete(ctx, published)).To(Succeed())
		Eventually(ctx, gone(ctx, published)).Should(Succeed())
		Eventually(ctx, read(ctx, published)).Should(Succeed())
		Expect(published.Data).To(Equal(want.Data))
		Expect(published.Annotations).To(Equal(want.Annotations))
	},
		Entry("in a new namespace", "", SpecTimeout(patience)),
		Entry("in one that was there before", "kube-public", SpecTimeout(patience)),
	)

	It("make nothing in a namespace that is being deleted", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}
		published, held := configMap(ns.Name, "kube-root-ca.crt"), create(ctx, configMap(ns.Name, "held", hold))
		Eventually(ctx, read(ctx, account)).Should(Succeed())
		Eventually(ctx, read(ctx, published)).Should(Succeed())
		Expect(api.Delete(ctx, ns)).To(Succeed())
		Eventually(ctx, conditions(ctx, ns)).Should(ContainElement(
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances"))
		other := newNamespace(ctx) // what happens there shows that the controllers have gone on
		Eventually(ctx, read(ctx, configMap(other.Name, "kube-root-ca.crt"))).Should(Succeed())
		Expect(gone(ctx, account)()).To(Succeed())
		Expect(gone(ctx, published)()).To(Succeed())
		letGo(ctx, held)
		Eventually(ctx, gone(ctx, ns)).Should(Succeed())
	}, SpecTimeout(patience))
})

// namespaceFor returns the namespace of that name, or a new one if it is empty.
func namespaceFor(ctx context.Context, name string) string {
	GinkgoHelper()
	if name == "" {
		name = newNamespace(ctx).Name
	}
	return name
}

// read returns a function that reads an object.
func read(ctx context.Context, obj client.Object) func() error {
	return func() error { return api.Get(ctx, client.ObjectKeyFromObject(obj), obj) }
}
