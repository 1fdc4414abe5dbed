// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// The cost of a read in one of ten thousand namespaces must not grow with their number. Memory is
// counted in place of time, since it is the same on a busy machine: to sort the namespaces takes
// 160 KB.
var _ = Describe("A cache of very many namespaces", func() {
	const many, most = 10_000, 32 << 10

	// perCall returns what a call allocates, the least of some series: the server in this process allocates too.
	perCall := func(call func()) int {
		const series, calls = 10, 5
		call() // the first one starts the informer
		least := math.MaxInt
		for range series {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				call()
			}
			runtime.ReadMemStats(&after)
			least = min(least, int(after.TotalAlloc-before.TotalAlloc)/calls)
		}
		return least
	}

	It("reads in one of them without a look at the others", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, configMap(namespace, "one", "x"))
		namespaces := map[string]cache.Config{namespace: {}}
		for i := range many {
			namespaces[fmt.Sprintf("elsewhere-%05d", i)] = cache.Config{}
		}
		c := started(ctx, cache.New, cache.Options{DefaultNamespaces: namespaces})

		list, one := &corev1.ConfigMapList{}, &corev1.ConfigMap{}
		Expect(perCall(func() { Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed()) })).To(BeNumerically("<", most))
		Expect(list.Items).To(HaveLen(1))
		Expect(perCall(func() {
			Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, one)).To(Succeed())
		})).To(BeNumerically("<", most))

		for _, read := range []func() error{
			func() error { return c.Get(ctx, client.ObjectKey{Namespace: "unknown", Name: "one"}, one) },
			func() error { return c.List(ctx, list, client.InNamespace("unknown")) },
		} {
			var err error
			Expect(perCall(func() { err = read() })).To(BeNumerically("<", most))
			Expect(err).To(MatchError(ContainSubstring("unknown namespace for the cache")))
			Expect(len(err.Error())).To(BeNumerically("<", 400))
			Expect(err.Error()).To(And(ContainSubstring("elsewhere-00003 and 9996 others; "), ContainSubstring(`"unknown"`)))
			Expect(strings.Count(err.Error(), "elsewhere-")).To(BeNumerically("<", 10))
		}
	})

	It("names all namespaces if they are few", func(ctx SpecContext) {
		c := started(ctx, cache.New, cache.Options{DefaultNamespaces: map[string]cache.Config{"b": {}, "a": {}, "c": {}}})
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "unknown", Name: "one"}, &corev1.ConfigMap{})).To(
			MatchError(ContainSubstring("limited to a, b, c;")))
	})
})
