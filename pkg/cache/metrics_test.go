// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// sample is one series with its value: that of a counter or a gauge, or the count of a histogram.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// samples gathers all series.
func samples(from prometheus.Gatherer) (all []sample) {
	GinkgoHelper()
	families, err := from.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, m := range family.GetMetric() {
			s := sample{family.GetName(), map[string]string{}, m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())}
			for _, l := range m.GetLabel() {
				s.labels[l.GetName()] = l.GetValue()
			}
			all = append(all, s)
		}
	}
	return all
}

// counted sums the series of a metric one of whose labels has a value.
func counted(from prometheus.Gatherer, name, label, value string) (sum float64) {
	GinkgoHelper()
	for _, s := range samples(from) {
		if s.name == name && s.labels[label] == value {
			sum += s.value
		}
	}
	return sum
}

// ofCache returns the series of a cache.
func ofCache(from prometheus.Gatherer, name string) (its []sample) {
	GinkgoHelper()
	for _, s := range samples(from) {
		if s.labels["cache"] == name {
			its = append(its, s)
		}
	}
	return its
}

var _ = Describe("Metrics", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		create(ctx, configMap(namespace, "one", "x"), configMap(namespace, "two", "y"))
	})
	key := func() client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: "one"} }

	It("are in controller-runtime's registry, without a line of the program, until the cache ends", func(ctx SpecContext) {
		goroutines, leave := family(ctx)
		c, err := cache.With(cache.Tuning{Name: "by-default"})(cfg, cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		stop := start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue(), "it is started")
		Expect(c.Get(ctx, key(), &corev1.ConfigMap{})).To(Succeed())
		leave()
		Expect(ofCache(crmetrics.Registry, "by-default")).NotTo(BeEmpty())
		stop()
		Expect(ofCache(crmetrics.Registry, "by-default")).To(BeEmpty())
		Expect(goroutines()).To(BeEmpty(), "metrics have no goroutine")
	})

	It("are nowhere if the program wants none", func(ctx SpecContext) {
		c := started(ctx, cache.With(cache.Tuning{Name: "without-metrics", NoMetrics: true}), cache.Options{})
		Expect(c.Get(ctx, key(), &corev1.ConfigMap{})).To(Succeed())
		Expect(ofCache(crmetrics.Registry, "without-metrics")).To(BeEmpty())
		_, err := cache.With(cache.Tuning{NoMetrics: true, Registerer: prometheus.NewRegistry()})(cfg, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring("NoMetrics is set as well")))
	})

	It("of several caches are apart, also of one after the other with the same name", func(ctx SpecContext) {
		registry := prometheus.NewRegistry()
		other := started(ctx, cache.With(cache.Tuning{Name: "other", Registerer: registry}), cache.Options{})
		Expect(other.Get(ctx, key(), &corev1.ConfigMap{})).To(Succeed())
		for range 3 {
			c, err := cache.With(cache.Tuning{Name: "again", Registerer: registry})(cfg, cache.Options{})
			Expect(err).NotTo(HaveOccurred())
			stop := start(c)
			Expect(c.WaitForCacheSync(ctx)).To(BeTrue(), "it is started")
			Expect(ofCache(registry, "again")).To(BeEmpty(), "it has cached nothing yet")
			Expect(c.Get(ctx, key(), &corev1.ConfigMap{})).To(Succeed())
			Expect(counted(registry, "tarn_cache_reads_total", "cache", "again")).To(Equal(1.0))
			stop()
			Expect(ofCache(registry, "again")).To(BeEmpty())
		}
		Expect(counted(registry, "tarn_cache_reads_total", "cache", "other")).To(Equal(1.0))
	})

	It("are not left behind by options that are refused", func() {
		registry := prometheus.NewRegistry()
		for range 2 {
			_, err := cache.With(cache.Tuning{Name: "refused", Registerer: registry})(cfg, cache.Options{
				DefaultNamespaces: map[string]cache.Config{"No Namespace": {}},
			})
			Expect(err).To(MatchError(ContainSubstring("cannot be the name of a namespace")))
		}
	})

	DescribeTable("have one series for all namespaces of a kind, unless asked", func(ctx SpecContext, byNamespace bool, series int) {
		registry := prometheus.NewRegistry()
		namespaces := map[string]cache.Config{namespace: {}}
		for range 3 {
			namespaces[newNamespace(ctx)] = cache.Config{}
		}
		c := started(ctx, cache.With(cache.Tuning{Registerer: registry, MetricsByNamespace: byNamespace}), cache.Options{DefaultNamespaces: namespaces})
		Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
		of, sum := map[string]bool{}, 0.0
		for _, s := range samples(registry) {
			if s.name == "tarn_informer_objects" {
				of[s.labels["cached_namespace"]] = true
				sum += s.value
			}
		}
		Expect(of).To(HaveLen(series))
		Expect(of[""]).To(Equal(!byNamespace))
		Expect(sum).To(Equal(2.0))
		Expect(counted(registry, "tarn_informer_informers", "phase", "synced")).To(Equal(4.0))
		Expect(counted(registry, "tarn_cache_reads_total", "plan", "all")).To(Equal(1.0), "a list of several namespaces is one read")
	},
		Entry("one", false, 1),
		Entry("each", true, 4),
	)

	It("tell what a watch has sent, what handlers have done, and what keeps a kind from syncing", func(ctx SpecContext) {
		registry := prometheus.NewRegistry()
		name, its := newUser()
		short, failed := untilItFails(ctx)
		c := started(ctx, on(cache.With(cache.Tuning{Registerer: registry}), its), cache.Options{
			Mapper: fixedMapper(), DefaultWatchErrorHandler: failed, DefaultNamespaces: map[string]cache.Config{namespace: {}},
		})
		reason := reasonOf(c.List(short, &corev1.ConfigMapList{}))
		Expect(counted(registry, "tarn_informer_not_synced", "cause", "forbidden")).To(Equal(1.0))
		Expect(counted(registry, "tarn_informer_informers", "phase", "not_synced")).To(Equal(1.0))
		apply(ctx, reason.Manifest(), name)

		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		told, proceed := make(chan struct{}, 100), make(chan struct{})
		release := sync.OnceFunc(func() { close(proceed) })
		defer release()
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { told <- struct{}{} },
			UpdateFunc: func(any, any) { told <- struct{}{}; <-proceed },
			DeleteFunc: func(any) { told <- struct{}{} },
		})
		Expect(err).NotTo(HaveOccurred())
		Eventually(registration.HasSyncedChecker().Done()).Should(BeClosed())
		Expect(counted(registry, "tarn_informer_not_synced", "cause", "forbidden")).To(BeZero())
		Expect(counted(registry, "tarn_informer_lists_total", "reason", "first")).To(Equal(1.0))

		create(ctx, configMap(namespace, "three", "z"))
		Expect(api.Update(ctx, configMap(namespace, "one", "z"))).To(Succeed())
		Expect(api.Delete(ctx, configMap(namespace, "two", ""))).To(Succeed())
		waitFor(ctx, told, 2+2)
		Eventually(func() float64 { return counted(registry, "tarn_informer_events_total", "type", "deleted") }).Should(Equal(1.0))
		Expect(counted(registry, "tarn_informer_events_total", "type", "added")).To(Equal(1.0))
		Expect(counted(registry, "tarn_informer_events_total", "type", "modified")).To(Equal(1.0))
		// A watch counts an event before handlers learn of it.
		lag := func() float64 { return total(registry, "tarn_informer_handler_lag_events") }
		Eventually(lag).Should(BeNumerically(">=", 2), "an update and a deletion")
		Expect(total(registry, "tarn_informer_handler_lag_seconds")).To(BeNumerically(">", 0))
		release()
		waitFor(ctx, told, 1)
		Eventually(func() float64 { return total(registry, "tarn_informer_handler_calls_total") }).Should(Equal(5.0))
		Eventually(lag).Should(BeZero())
		Expect(counted(registry, "tarn_informer_decode_duration_seconds", "kind", "ConfigMap")).To(BeNumerically(">=", 3))
	})
})

// waitFor receives so many times.
func waitFor(ctx context.Context, from <-chan struct{}, times int) {
	GinkgoHelper()
	for range times {
		Eventually(ctx, from).Should(Receive())
	}
}
