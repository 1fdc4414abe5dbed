// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// giveUp is how long a read waits that gets no answer.
const giveUp = 500 * time.Millisecond

// The same programs with controller-runtime's cache, where that waits without a reason, ends, or says what
// is not so, and with ours.
var _ = Describe("The same program with controller-runtime's cache and with ours", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	quiet := func(context.Context, *toolscache.Reflector, error) {}
	its := func(change func(*rest.Config)) func() (*rest.Config, cache.Options) {
		return func() (*rest.Config, cache.Options) {
			c := rest.CopyConfig(cfg)
			change(c)
			return c, cache.Options{Mapper: fixedMapper()}
		}
	}
	answered := func(code int) func() (*rest.Config, cache.Options) {
		return func() (*rest.Config, cache.Options) {
			transport, err := rest.TransportFor(cfg)
			Expect(err).NotTo(HaveOccurred())
			return cfg, cache.Options{Mapper: fixedMapper(), HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				response, err := transport.RoundTrip(r)
				if err == nil {
					response.StatusCode, response.Status = code, http.StatusText(code)
				}
				return response, err
			})}}
		}
	}
	DescribeTable("waits in vain, and is told why by ours alone", func(ctx SpecContext, obj client.Object, setUp func() (*rest.Config, cache.Options), want cache.Cause) {
		create(ctx, configMap(namespace, "two", "odd"))
		informerOf := func(c cache.Cache) error {
			short, cancel := context.WithTimeout(ctx, giveUp)
			defer cancel()
			_, err := c.GetInformer(short, obj)
			return err
		}
		for _, newCache := range []cache.NewCacheFunc{crcache.New, cache.New} {
			with, opts := setUp()
			opts.DefaultWatchErrorHandler = quiet
			opts.DefaultNamespaces = map[string]cache.Config{namespace: {}}
			c := started(ctx, on(newCache, with), opts)
			if _, ours := c.(interface{ Name() string }); ours {
				Eventually(func() cache.Cause { return reasonOf(informerOf(c)).Cause }).Should(Equal(want))
				continue
			}
			err := informerOf(c)
			Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
			Expect(errors.As(err, new(*cache.NotSyncedError))).To(BeFalse())
			Expect(err.Error()).NotTo(ContainSubstring(string(want)))
		}
	},
		Entry("forbidden", &corev1.ConfigMap{}, func() (*rest.Config, cache.Options) {
			_, nobody := newUser()
			return nobody, cache.Options{Mapper: fixedMapper()}
		}, cache.Forbidden),
		Entry("unauthorized", &corev1.ConfigMap{}, its(func(c *rest.Config) {
			c.BearerToken, c.BearerTokenFile, c.CertData, c.KeyData, c.CertFile, c.KeyFile = "nobody's", "", nil, nil, "", ""
		}), cache.Unauthorized),
		Entry("TLS", &corev1.ConfigMap{}, its(func(c *rest.Config) { c.CAData, c.CAFile = nil, "" }), cache.TLS),
		Entry("connection refused", &corev1.ConfigMap{}, its(func(c *rest.Config) { c.Host = "https://127.0.0.1:1" }), cache.ConnectionRefused),
		Entry("too many requests", &corev1.ConfigMap{}, answered(http.StatusTooManyRequests), cache.TooManyRequests),
		Entry("unavailable", &corev1.ConfigMap{}, answered(http.StatusServiceUnavailable), cache.Unavailable),
		Entry("timeout", &corev1.ConfigMap{}, answered(http.StatusGatewayTimeout), cache.Timeout),
		Entry("kind cannot be watched", &corev1.ConfigMap{}, answered(http.StatusMethodNotAllowed), cache.NotWatchable),
		Entry("other", &corev1.ConfigMap{}, answered(http.StatusInternalServerError), cache.Other),
		Entry("object cannot be decoded", &strict{}, func() (*rest.Config, cache.Options) {
			json, opts, _ := watchesOf(namespace, strictScheme())
			return json, opts
		}, cache.Undecodable),
	)

	It("is told that an object does not exist whose transform failed, and what failed by ours", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "x"))
		opts := cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: func(any) (any, error) { return nil, errors.New("boom") }}
		key := client.ObjectKey{Namespace: namespace, Name: "one"}
		err := started(ctx, crcache.New, opts).Get(ctx, key, &corev1.ConfigMap{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Expect(reasonOf(started(ctx, cache.New, opts).Get(ctx, key, &corev1.ConfigMap{})).Cause).To(Equal(cache.TransformFailed))
	})

	It("ends for a kind that is not served, and goes on with ours if the kind is optional", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "x"))
		g := newGuest()
		program := func(newCache cache.NewCacheFunc) *program {
			mgr, err := ctrl.NewManager(cfg, ctrl.Options{
				NewCache: newCache, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{CacheSyncTimeout: syncTimeout},
			})
			Expect(err).NotTo(HaveOccurred())
			p := &program{Manager: mgr, reconciled: make(chan string, 1), ended: make(chan error, 1)}
			p.control(&corev1.ConfigMap{}, "one", p.reconciled)
			p.control(g.object("", ""), "alice", nil)
			p.run()
			return p
		}
		Eventually(program(crcache.New).ended).Should(Receive(HaveOccurred()))
		ours := program(cache.With(optionalKinds))
		Eventually(ours.reconciled).Should(Receive())
		Consistently(ours.ended, 2*syncTimeout).ShouldNot(Receive())
	})
})
