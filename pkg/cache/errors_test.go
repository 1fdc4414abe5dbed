// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
)

var _ = Describe("An error says", func() {
	It("that the API server has gone", func(ctx SpecContext) {
		server := envtest.New(envtest.Options{})
		Expect(server.Start(ctx)).To(Succeed())
		DeferCleanup(server.Stop)
		served := server.Config()
		transport, err := rest.TransportFor(served)
		Expect(err).NotTo(HaveOccurred())
		refused := make(chan error, 100)
		c, err := cache.New(served, cache.Options{HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := transport.RoundTrip(r)
			if err != nil && r.URL.Path == "/api/v1/secrets" {
				refused <- err
			}
			return response, err
		})}})
		Expect(err).NotTo(HaveOccurred())
		start(c)
		key := client.ObjectKey{Namespace: "default", Name: "one"}
		Expect(client.IgnoreNotFound(c.Get(ctx, key, &corev1.ConfigMap{}))).To(Succeed())
		Expect(server.Stop()).To(Succeed())

		impatient, cancel := context.WithCancel(ctx)
		go func() {
			defer GinkgoRecover()
			defer cancel()
			for range 2 { // with the second try the first has been noted
				Eventually(refused).Should(Receive())
			}
		}()
		err = c.Get(impatient, key, &corev1.Secret{})
		Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(ContainSubstring("Secret (v1)"), ContainSubstring("connection refused"), ContainSubstring(served.Host))))
	})
})
