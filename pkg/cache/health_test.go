// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

var _ = Describe("The health of a cache", func() {
	It("names what has not synced, and is no reason for a restart", func(ctx SpecContext) {
		name, its := newUser()
		c, err := cache.New(its, cache.Options{Mapper: fixedMapper()})
		Expect(err).NotTo(HaveOccurred())
		ready, live := cache.Ready(c), cache.Live(c)
		Expect(ready(nil)).To(MatchError(&cache.ErrCacheNotStarted{}))
		Expect(live(nil)).To(Succeed(), "a restart would not start it")
		start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Expect(ready(nil)).To(Succeed(), "nobody has asked for a kind")
		_, err = c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { return ready(nil) }).Should(MatchError(And(ContainSubstring("ConfigMap (v1)"), ContainSubstring("forbidden"))))
		reason := reasonOf(ready(nil))
		Expect(live(nil)).To(Succeed())
		apply(ctx, reason.Manifest(), name)
		Eventually(func() error { return ready(nil) }, 3*patience).Should(Succeed())
	})

	It("does not count kinds that are isolated", func(ctx SpecContext) {
		_, its := newUser()
		short, failed := untilItFails(ctx)
		c := started(ctx, on(cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{OnFailure: cache.Isolate}}), its),
			cache.Options{Mapper: fixedMapper(), DefaultWatchErrorHandler: failed})
		_, err := c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		<-short.Done()
		Expect(cache.Ready(c)(nil)).To(Succeed())
		Expect(cache.NotSynced(c)).To(HaveLen(1))
	})

	It("is not known of what wraps a cache", func() {
		c, err := cache.New(cfg, cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cache.Ready(struct{ cache.Cache }{c})(nil)).To(MatchError(ContainSubstring("pass a cache as New or With")))
	})
})

var _ = Describe("MaxAge", func() {
	It("is a condition of reads, through a client too", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, configMap(namespace, "one", "x"))
		c := started(ctx, cache.New, cache.Options{})
		reads, err := client.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: c}})
		Expect(err).NotTo(HaveOccurred())
		for _, r := range []client.Reader{c, reads} {
			one := client.ObjectKey{Namespace: namespace, Name: "one"}
			Expect(r.Get(ctx, one, &corev1.ConfigMap{}, cache.MaxAge(time.Hour))).To(Succeed())
			Expect(r.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(namespace), cache.MaxAge(time.Hour))).To(Succeed())
			for _, err := range []error{
				r.Get(ctx, one, &corev1.ConfigMap{}, cache.MaxAge(-1)),
				r.List(ctx, &corev1.ConfigMapList{}, cache.MaxAge(-1)),
			} {
				var stale *cache.StaleError
				Expect(errors.As(err, &stale)).To(BeTrue(), "%v", err)
				Expect(stale.GroupVersionKind).To(Equal(configMapKind))
			}
		}
		for _, err := range cache.Iterate(context.Background(), c, &corev1.ConfigMap{}, cache.MaxAge(-1)) {
			Expect(err).To(BeAssignableToTypeOf(&cache.StaleError{}))
		}
	})
})
