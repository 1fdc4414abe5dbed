// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/envtest/faults"
)

var _ = Describe("a proxy", func() {
	It("applies rules to what passes, and to nothing else", func(ctx SpecContext) {
		ns, own := namespace(ctx), faults.New()
		live, cancel := context.WithCancel(ctx)
		defer cancel()
		config, err := own.NewProxy(live, env.Config())
		Expect(err).NotTo(HaveOccurred())
		behind, direct := clientOf(config, "application/vnd.kubernetes.protobuf"), clientOf(env.Config(), "application/json")

		w, err := behind.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		hold, err := own.Hold(faults.Rule{Verb: "watch", Resource: "configmaps"})
		Expect(err).NotTo(HaveOccurred())
		_, err = own.Inject(faults.Rule{Verb: "create", Name: "b"}, faults.Respond(conflict))
		Expect(err).NotTo(HaveOccurred())
		_, err = behind.CoreV1().ConfigMaps(ns).Create(ctx, configMap("a"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = behind.CoreV1().ConfigMaps(ns).Create(ctx, configMap("b"), metav1.CreateOptions{})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		_, err = direct.CoreV1().ConfigMaps(ns).Create(ctx, configMap("b"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, want := range []string{"a", "b"} {
			Expect(w.ResultChan()).NotTo(Receive())
			next, err := hold.Next(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(next.Name).To(Equal(want))
			Expect(event(ctx, w)).To(Equal("ADDED " + want))
		}
		_, err = own.Inject(faults.Rule{User: "one"}, faults.DropRequest())
		Expect(err).To(MatchError(ContainSubstring("use UserAgent")))

		By("ending it")
		cancel()
		Eventually(func() error {
			_, err := behind.CoreV1().ConfigMaps(ns).Get(ctx, "a", metav1.GetOptions{})
			return err
		}).WithContext(ctx).Should(MatchError(ContainSubstring("connect")))
	}, SpecTimeout(patience))

	It("lends the credentials of a certificate to its own token alone, and keeps the path of the server", func(ctx SpecContext) {
		certificate := env.Config()
		certificate.BearerToken = ""
		config, err := faults.New().NewProxy(ctx, certificate)
		Expect(err).NotTo(HaveOccurred())
		_, err = clientOf(config, "application/json").CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		config.BearerToken = "another"
		_, err = clientOf(config, "application/json").CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)

		below := env.Config()
		below.Host += "/clusters/root"
		config, err = faults.New().NewProxy(ctx, below)
		Expect(err).NotTo(HaveOccurred())
		_, err = clientOf(config, "application/json").CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("lends its credentials to nobody", func(ctx SpecContext) {
		config, err := faults.New().NewProxy(ctx, env.Config())
		Expect(err).NotTo(HaveOccurred())
		_, err = clientOf(rest.AnonymousClientConfig(config), "application/json").CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))
})
