// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

var _ = Describe("A lease with deletions on release", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	DescribeTable("tells its handlers of what they know, once", func(ctx SpecContext, wider bool) {
		create(ctx, configMap(namespace, "a", "web"), configMap(namespace, "b", "web"), configMap(namespace, "c", "web"), configMap(namespace, "d", "db"))
		c, _ := started(ctx, cache.Tuning{}, cache.Options{})
		if wider {
			_, err := c.GetInformer(ctx, &corev1.ConfigMap{})
			Expect(err).NotTo(HaveOccurred())
		}
		scope := lease.Scope{Namespace: namespace, Labels: selector("app=web")}
		its, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, scope)
		Expect(err).NotTo(HaveOccurred())
		others, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, scope)
		Expect(err).NotTo(HaveOccurred())
		early, one, two, removed, other := &events{}, &events{}, &events{}, &events{}, &events{}
		_, err = its.AddEventHandler(early)
		Expect(err).NotTo(HaveOccurred())
		its.DeleteOnRelease()
		_, err = others.AddEventHandler(other)
		Expect(err).NotTo(HaveOccurred())
		var last toolscache.ResourceEventHandlerRegistration
		for _, handler := range []*events{one, two, removed} {
			last, err = its.AddEventHandler(handler)
			Expect(err).NotTo(HaveOccurred())
		}
		known := ConsistOf("add a", "add b", "add c", "delete c", "update b", "delete b")
		haveHeard := func(count int) { // each of them: one that is behind is not told of what a later change has undone
			for _, all := range []*events{one, two, early, other} {
				Eventually(all.Heard).Should(HaveLen(count))
			}
		}
		Eventually(removed.Heard).Should(HaveLen(3))
		Expect(its.RemoveEventHandler(last)).To(Succeed())
		haveHeard(3)
		Expect(api.Delete(ctx, configMap(namespace, "c", ""))).To(Succeed())
		haveHeard(4)
		Expect(api.Update(ctx, &corev1.ConfigMap{ObjectMeta: configMap(namespace, "b", "web").ObjectMeta, Data: map[string]string{"b": "c"}})).To(Succeed())
		haveHeard(5)
		Expect(api.Update(ctx, configMap(namespace, "b", "db"))).To(Succeed())
		haveHeard(6)
		for _, all := range []*events{one, two, early, other} {
			Expect(all.Heard()).To(known)
		}
		Expect(its.Release()).To(Succeed())
		Expect(its.Release()).NotTo(Succeed())
		released := append(one.Heard()[:6:6], "delete a")
		Expect(one.Heard()).To(Equal(released))
		Expect(two.Heard()).To(HaveLen(7))
		create(ctx, configMap(namespace, "e", "web"))
		Eventually(other.Heard).Should(ContainElement("add e"))
		Expect(other.Heard()).NotTo(ContainElement("delete a"))
		Expect(one.Heard()).To(Equal(released))
		Expect(early.Heard()).To(known)
		Expect(removed.Heard()).To(HaveLen(3))
		Expect(others.Release()).To(Succeed())
	},
		Entry("in an informer of the scope", false),
		Entry("in a wider informer", true),
	)

	It("tells a handler that releases it after the event", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "a", "web"))
		c, _ := started(ctx, cache.Tuning{}, cache.Options{})
		its, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Name: "a"})
		Expect(err).NotTo(HaveOccurred())
		its.DeleteOnRelease()
		var mu sync.Mutex // guards heard
		var heard []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, what)
		}
		_, err = its.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) {
				note("add")
				note(map[bool]string{true: "released"}[its.Release() == nil])
			},
			DeleteFunc: func(obj any) { note("delete " + obj.(*corev1.ConfigMap).Name) },
		})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() []string { mu.Lock(); defer mu.Unlock(); return append([]string(nil), heard...) }).Should(Equal([]string{"add", "released", "delete a"}))
	})
})
