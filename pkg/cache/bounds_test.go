// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// large returns a ConfigMap of about so many bytes.
func large(namespace, name string, bytes int) *corev1.ConfigMap {
	obj := configMap(namespace, name, "x")
	obj.Data["large"] = strings.Repeat("x", bytes)
	return obj
}

// bytesOf returns about how many bytes the first informer takes.
func bytesOf(c cache.Cache) int {
	all, _ := cached(c)[0].Bytes()
	return all
}

var _ = Describe("MaxBytes", func() {
	var (
		namespace string
		registry  *prometheus.Registry
		log       *gbytes.Buffer
		only      cache.Options
	)
	BeforeEach(func(ctx SpecContext) {
		namespace, registry, log = newNamespace(ctx), prometheus.NewRegistry(), gbytes.NewBuffer()
		only = cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}}
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
	})
	of := func(bytes int64) cache.TuningByObject { return cache.TuningByObject{MaxBytes: bytes} }
	// value returns a metric of a kind; an empty one stands for the whole cache.
	value := func(metric, kind string) func() float64 {
		return func() float64 { return counted(registry, metric, "kind", kind) }
	}
	lines := func() int { return strings.Count(string(log.Contents()), "More is cached than MaxBytes allows") }
	// look waits until the cache has looked at its bytes again, which a further object changes.
	look := func(ctx context.Context) {
		GinkgoHelper()
		was := value("tarn_cache_bytes", "")()
		create(ctx, large(namespace, "further", 10<<10))
		Eventually(value("tarn_cache_bytes", "")).ShouldNot(Equal(was))
	}

	DescribeTable("is refused", func(t cache.Tuning, opts cache.Options, want string) {
		_, err := cache.With(t)(cfg, opts)
		Expect(err).To(MatchError(want))
	},
		Entry("if it is negative", cache.Tuning{MaxBytes: -1}, cache.Options{}, "cache tuning: the MaxBytes is -1; use 0 for no bound"),
		Entry("if that of all kinds is negative", cache.Tuning{TuningByObject: of(-1)}, cache.Options{}, "cache tuning: the MaxBytes is -1; use 0 for no bound"),
		Entry("if that of a kind is negative", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.Pod{}: of(-2)}}, cache.Options{},
			"cache tuning: ByObject[*v1.Pod]: the MaxBytes is -2; use 0 for no bound"),
		Entry("with informers of the user's", cache.Tuning{MaxBytes: 1}, cache.Options{NewInformer: toolscache.NewSharedIndexInformer},
			"cache tuning: MaxBytes cannot be set with the option NewInformer, whose informers decide how they keep objects, with how many bytes, and tell handlers"),
		Entry("of a kind with informers of the user's", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.Pod{}: of(1)}}, cache.Options{NewInformer: toolscache.NewSharedIndexInformer},
			"cache tuning: MaxBytes cannot be set with the option NewInformer, whose informers decide how they keep objects, with how many bytes, and tell handlers"),
	)

	It("is told of once while more is needed, and reads go on", func(ctx SpecContext) {
		const bound = 300 << 10
		for i := range 5 {
			create(ctx, large(namespace, fmt.Sprint("large-", i), 100<<10))
		}
		c := started(ctx, cache.With(cache.Tuning{MaxBytes: bound, TuningByObject: of(bound), Registerer: registry}), only)
		Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
		Expect(c.List(ctx, &corev1.SecretList{})).To(Succeed(), "another kind is started in any case")
		for _, kind := range []string{"", "ConfigMap"} {
			Eventually(value("tarn_cache_over_max_bytes", kind)).Should(Equal(1.0), kind)
			Expect(value("tarn_cache_bytes", kind)()).To(BeNumerically(">", 500<<10), kind)
			Expect(value("tarn_cache_max_bytes", kind)()).To(BeEquivalentTo(bound), kind)
		}
		Eventually(value("tarn_cache_max_bytes", "Secret")).Should(BeEquivalentTo(bound))
		Expect(value("tarn_cache_over_max_bytes", "Secret")()).To(BeZero())
		look(ctx)
		Expect(lines()).To(Equal(2), "one of the kind, one of the cache")
		Expect(string(log.Contents())).To(And(
			MatchRegexp(`"reason"="ConfigMap \(v1\) takes 0\.\d MiB, MaxBytes allows 0\.3 MiB, and nothing more can be evicted: restrict it by`),
			MatchRegexp(`"reason"="the cache takes 0\.\d MiB, MaxBytes allows 0\.3 MiB, and nothing more can be evicted; ConfigMap \(v1\) takes 0\.\d MiB, Secret \(v1\) takes 0\.0 MiB: restrict`)))
		Expect(cache.Ready(c)(nil)).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "large-4"}, &corev1.ConfigMap{})).To(Succeed())

		for i := range 4 {
			Expect(api.Delete(ctx, large(namespace, fmt.Sprint("large-", i), 0))).To(Succeed())
		}
		for _, kind := range []string{"", "ConfigMap"} {
			Eventually(value("tarn_cache_over_max_bytes", kind)).Should(BeZero(), kind)
			Expect(value("tarn_cache_bytes", kind)()).To(And(BeNumerically("<=", bound), BeNumerically(">", 100<<10)), kind)
		}
		Expect(lines()).To(Equal(2))
	})

	It("evicts decoded objects that reads without copies share", func(ctx SpecContext) {
		obj := large(namespace, "many", 0)
		for i := range 3000 {
			obj.Data[fmt.Sprint("key-", i)] = "v"
		}
		create(ctx, obj)
		key := client.ObjectKeyFromObject(obj)
		before := started(ctx, cache.With(cache.Tuning{NoMetrics: true}), only)
		Expect(before.Get(ctx, key, &corev1.ConfigMap{})).To(Succeed())
		flat, shared := cached(before)[0].Bytes()
		Expect(shared).To(BeZero())

		c := started(ctx, cache.With(cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: of(int64(flat + 1<<10))}, Registerer: registry}), only)
		got := &corev1.ConfigMap{}
		Expect(c.Get(ctx, key, got, client.UnsafeDisableDeepCopy)).To(Succeed())
		Expect(bytesOf(c)).To(BeNumerically(">", flat+100<<10))
		Eventually(func() float64 { return counted(registry, "tarn_cache_evictions_total", "what", "shared") }).Should(Equal(1.0))
		Expect(bytesOf(c)).To(BeNumerically("<=", flat+1<<10))
		again := &corev1.ConfigMap{}
		Expect(c.Get(ctx, key, again, client.UnsafeDisableDeepCopy)).To(Succeed())
		Expect(again).To(Equal(got))
		Eventually(func() float64 { return counted(registry, "tarn_cache_evictions_total", "what", "shared") }).Should(Equal(2.0))
		Expect(lines()).To(BeZero(), "that was enough")
		Expect(value("tarn_cache_over_max_bytes", "ConfigMap")()).To(BeZero())
	})

	It("counts what representations share once", func(ctx SpecContext) {
		create(ctx, large(namespace, "one", 200<<10))
		c := started(ctx, cache.With(cache.Tuning{MaxBytes: 300 << 10, TuningByObject: cache.TuningByObject{Storage: cache.OneWatch}, Registerer: registry}), only)
		for _, v := range views {
			Expect(c.List(ctx, v.list())).To(Succeed())
		}
		Eventually(value("tarn_cache_bytes", "")).Should(BeNumerically(">", 200<<10))
		look(ctx)
		Expect(value("tarn_cache_bytes", "")()).To(BeNumerically("<", 300<<10))
	})

	It("is zero: nobody looks", func(ctx SpecContext) {
		goroutines, leave := family(ctx)
		c, err := cache.With(cache.Tuning{Registerer: registry})(cfg, cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		stop := start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		leave()
		Expect(strings.Join(goroutines(), "\n")).NotTo(ContainSubstring("bounds"))
		stop()
		Expect(value("tarn_cache_max_bytes", "")()).To(BeZero())
	})
})
