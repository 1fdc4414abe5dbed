// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/internal/cover"
	"github.com/tarn-dev/tarn/internal/specs"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// selectingServer returns a server that knows shard selectors.
func selectingServer(ctx context.Context) (*rest.Config, client.Client) {
	GinkgoHelper()
	if specs.OnOracle() {
		return cfg, api
	}
	gates := utilfeature.DefaultMutableFeatureGate // global to the process
	Expect(gates.Set("ShardedListAndWatch=true")).To(Succeed())
	DeferCleanup(func() { Expect(gates.Set("ShardedListAndWatch=false")).To(Succeed()) })
	_, config, client := specs.Environment(ctx, envtest.Options{}, leftByTheOracle)
	return config, client
}

// sightings count how often something was read from the bodies of the watches of all namespaces.
type sightings struct {
	of     []byte
	seen   atomic.Int64
	ranges atomic.Int64 // of the selector of the newest watch
}

// RoundTripper returns one that looks.
func (s *sightings) RoundTripper(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && strings.HasSuffix(r.URL.Path, "/v1/configmaps") && r.URL.Query().Get("watch") != "" {
			s.ranges.Store(int64(strings.Count(r.URL.Query().Get("shardSelector"), "shardRange")))
			response.Body = &lookedAt{ReadCloser: response.Body, by: s}
		}
		return response, err
	})
}

type lookedAt struct {
	io.ReadCloser
	by   *sightings
	tail []byte
}

// Read implements io.Reader.
func (l *lookedAt) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.tail = append(l.tail, p[:n]...)
	l.by.seen.Add(int64(bytes.Count(l.tail, l.by.of)))
	l.tail = append([]byte(nil), l.tail[max(0, len(l.tail)-len(l.by.of)+1):]...)
	return n, err
}

var _ = Describe("Namespaces that the server selects", Serial, func() {
	It("are watched together, though they are few of many, and nothing else is sent", func(ctx SpecContext) {
		config, server := selectingServer(ctx)
		clients, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		list, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1, ShardSelector: cover.Everything})
		Expect(err).NotTo(HaveOccurred())
		if list.ShardInfo == nil {
			Skip("the server knows no shard selectors")
		}

		const others, number = 60, 12
		var mine []string
		for range others {
			Expect(server.Create(ctx, configMap(specs.Namespace(ctx, server, "other-"), "outside-of-all", "a"))).To(Succeed())
		}
		for range number {
			mine = append(mine, specs.Namespace(ctx, server, "mine-"))
			Expect(server.Create(ctx, configMap(mine[len(mine)-1], "inside", "a"))).To(Succeed())
		}

		visited, outside, inside := &visitors{counts: true}, &sightings{of: []byte("outside-of-all")}, &sightings{of: []byte("inside")}
		to := visited.to(config)
		to.Wrap(outside.RoundTripper)
		to.Wrap(inside.RoundTripper)
		c, err := cache.With(cache.Tuning{Namespaces: labels.Nothing(), NoMetrics: true})(to, cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		start(c)
		heard := &picture{}
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		_, err = informer.AddEventHandler(heard)
		Expect(err).NotTo(HaveOccurred())
		settled := func(namespaces ...string) {
			GinkgoHelper()
			Expect(setNamespaces(ctx, c, namespaces...)).To(Succeed())
			Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
			Eventually(func(g Gomega) {
				want, err := versionsOf(ctx, server, &corev1.ConfigMapList{}, namespaces...)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(versionsOf(ctx, c, &corev1.ConfigMapList{}, "")).To(Equal(want))
			}).Should(Succeed())
		}
		settled(mine[:10]...)
		Eventually(visited.Open).Should(ContainElement(""))
		Eventually(outside.ranges.Load).Should(BeEquivalentTo(10))
		settled(mine...)
		Eventually(outside.ranges.Load).Should(BeEquivalentTo(number), "a cover of all")

		listed := &corev1.ConfigMapList{}
		Expect(server.List(ctx, listed)).To(Succeed())
		for _, obj := range listed.Items {
			if obj.Name == "inside" || obj.Name == "outside-of-all" {
				obj.Data = map[string]string{"b": "c"}
				Expect(server.Update(ctx, &obj)).To(Succeed())
			}
		}
		settled(mine...)
		Expect(inside.seen.Load()).To(BeNumerically(">", 0))
		Expect(outside.seen.Load()).To(BeZero())
		want, err := versionsOf(ctx, server, &corev1.ConfigMapList{}, mine...)
		Expect(err).NotTo(HaveOccurred())
		Expect(want).To(HaveLen(number))
		Eventually(func(g Gomega) {
			told, wrong := heard.now()
			g.Expect(wrong).To(BeEmpty())
			for key, version := range want {
				g.Expect(told).To(HaveKeyWithValue(key, version))
			}
		}).Should(Succeed())
	}, SpecTimeout(5*patience))
})
