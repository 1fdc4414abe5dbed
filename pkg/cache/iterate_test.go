// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

var _ = Describe("Iterate", func() {
	var (
		a, b string
		c    cache.Cache
	)
	BeforeEach(func(ctx SpecContext) {
		a, b = newNamespace(ctx), newNamespace(ctx)
		create(ctx, configMap(b, "two", "x"), configMap(a, "two", "y"), configMap(a, "one", "x"), configMap(b, "one", "z"))
		c = started(ctx, cache.New, cache.Options{DefaultNamespaces: map[string]cache.Config{a: {}, b: {}}})
	})

	It("walks what List would list, in its order", func(ctx SpecContext) {
		var keys []string
		for obj, err := range cache.Iterate(ctx, c, &corev1.ConfigMap{}, client.MatchingLabels{"set": "x"}) {
			Expect(err).NotTo(HaveOccurred())
			Expect(obj.GroupVersionKind()).To(Equal(configMapKind))
			keys = append(keys, client.ObjectKeyFromObject(obj).String())
			obj.Data["set"] = "changed" // it is ours
		}
		Expect(keys).To(Equal(sorted(a+"/one", b+"/two")))
		got := &corev1.ConfigMap{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: a, Name: "one"}, got)).To(Succeed())
		Expect(got.Data).To(HaveKeyWithValue("set", "x"))
	})

	It("may stop early, and has a limit", func(ctx SpecContext) {
		for _, opts := range [][]client.ListOption{{}, {client.Limit(1)}} {
			count := 0
			for _, err := range cache.Iterate(ctx, c, views[1].object().(*unstructured.Unstructured), opts...) {
				Expect(err).NotTo(HaveOccurred())
				if count++; len(opts) == 0 {
					break
				}
			}
			Expect(count).To(Equal(1))
		}
	})

	It("ends with an error", func(ctx SpecContext) {
		gone, cancel := context.WithCancel(ctx)
		oracle, err := crcache.New(cfg, crcache.Options{})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
		cancel()
		for name, walk := range map[string]func(func(*corev1.ConfigMap, error) bool){
			"a nil object":          cache.Iterate(ctx, c, (*corev1.ConfigMap)(nil)),
			"an unknown namespace":  cache.Iterate(ctx, c, &corev1.ConfigMap{}, client.InNamespace("other")),
			"an unknown field":      cache.Iterate(ctx, c, &corev1.ConfigMap{}, client.MatchingFields{"none": "x"}),
			"another cache":         cache.Iterate(ctx, oracle, &corev1.ConfigMap{}),
			"a context that is out": cache.Iterate(gone, c, &corev1.ConfigMap{}),
		} {
			var errs []error
			for _, err := range walk {
				errs = append(errs, err)
			}
			Expect(errs).To(HaveLen(1), name)
			Expect(errs[0]).To(HaveOccurred(), name)
		}
	})
})
