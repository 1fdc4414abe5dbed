// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"net/http/httptest"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

// ring is one that this replica has joined as b, or not.
type ring map[string]string

// Term implements the interface of Tuning.Shard.
func (r ring) Term(namespace string) uint64 {
	if r["b"] != "" && namespace == "default" {
		return 1
	}
	return 0
}

// Changed implements the interface of Tuning.Shard.
func (ring) Changed() <-chan struct{} { return nil }

// Member implements the interface of Tuning.Shard.
func (ring) Member() string { return "b" }

// Members implements the interface of Tuning.Shard.
func (r ring) Members() map[string]string { return r }

var _ = Describe("Namespaces that come and go", func() {
	of := func(tuning cache.Tuning) looking {
		tuning.NoMetrics = true
		return look(started(cache.With(tuning), cfg, cache.Options{}), inspect.Options{})
	}

	It("are counted, with their selector and the ring", func() {
		shown := func(l looking) func() any {
			return func() any { return l.json("/api/v1/overview")["namespaces"] }
		}
		Expect(shown(of(cache.Tuning{}))()).To(BeNil(), "they are fixed")
		Expect(shown(of(cache.Tuning{Namespaces: labels.Nothing()}))()).To(Equal(tree{"count": 0.0}))
		one := labels.SelectorFromSet(labels.Set{"kubernetes.io/metadata.name": "default"})
		Eventually(shown(of(cache.Tuning{Namespaces: one}))).Should(Equal(tree{"count": 1.0, "selector": "kubernetes.io/metadata.name=default"}))
		Eventually(shown(of(cache.Tuning{Namespaces: labels.Everything(), Shard: ring{"b": "b_1", "a": "a_1"}}))).Should(
			Equal(tree{"count": 1.0, "ring": []any{"a", "b"}, "member": "b"}))
		Expect(shown(of(cache.Tuning{Namespaces: labels.Everything(), Shard: ring{}}))()).To(Equal(tree{"count": 0.0, "member": "b"}))
	})

	It("stand on the page", func(SpecContext) {
		b := openBrowser()
		page := httptest.NewServer(of(cache.Tuning{Namespaces: labels.Everything(), Shard: ring{"b": "b_1", "a": "a_1"}}).handler)
		DeferCleanup(page.Close)
		b.looks(1440, 900, "light")
		b.run(chromedp.Navigate(page.URL+"#/"), chromedp.WaitVisible("main p"))
		Eventually(func() string { return b.text("main") }).Should(And(ContainSubstring("1 namespace now with any labels, those of b. In the ring: a, b"), Not(ContainSubstring("undefined"))))
		b.picture("namespaces")
		Expect(b.said()).To(BeEmpty())
	}, SpecTimeout(10*patience))
})
