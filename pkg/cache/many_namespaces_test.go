// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/variable"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// tenKinds are cached in each namespace.
var tenKinds = []client.Object{
	&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &corev1.PodTemplate{}, &corev1.LimitRange{}, &corev1.PersistentVolumeClaim{},
	&appsv1.Deployment{}, &appsv1.StatefulSet{}, &networkingv1.NetworkPolicy{}, &rbacv1.Role{},
}

// footprint is what a process takes.
type footprint struct {
	Goroutines int
	Heap       int64 // of server and cache, in bytes
}

// takes returns the footprint of now.
func takes() footprint {
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return footprint{runtime.NumGoroutine(), int64(memory.HeapAlloc)}
}

var _ = Describe("Many namespaces whose labels match", Serial, func() {
	It("come and go with exactly their events and requests, and leave nothing behind", func(ctx SpecContext) {
		t := GinkgoTB()
		seed := variable.Number(t, "TARN_NAMESPACES_SEED", uint64(time.Now().UnixNano()))
		number, rounds := int(variable.Number(t, "TARN_NAMESPACES", 50)), int(variable.Number(t, "TARN_NAMESPACES_ROUNDS", 5))
		r := rand.New(rand.NewPCG(seed, 1))
		By(fmt.Sprintf("TARN_NAMESPACES_SEED=%d", seed))
		all := make([]string, number)
		for i := range all {
			all[i] = newNamespace(ctx)
			create(ctx, configMap(all[i], "one", "odd"))
		}
		key := "tarn.dev/" + all[0]
		labelNamespaces(ctx, key, `""`, all)

		visited := &visitors{}
		exists, err := labels.Parse(key)
		Expect(err).NotTo(HaveOccurred())
		c, err := cache.With(cache.Tuning{Namespaces: exists, NoMetrics: true})(visited.to(cfg), cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		start(c)
		heard := &picture{}
		for _, kind := range tenKinds {
			informer, err := c.GetInformer(ctx, kind)
			Expect(err).NotTo(HaveOccurred())
			if _, is := kind.(*corev1.ConfigMap); is {
				_, err = informer.AddEventHandler(heard)
				Expect(err).NotTo(HaveOccurred())
			}
		}
		// Of each kind seven namespaces have a watch, and the others share one. Namespaces have one.
		most := min(number, 8)*len(tenKinds) + 1
		settled := func(namespaces int) {
			GinkgoHelper()
			Eventually(visited.Watches).WithTimeout(time.Minute).Should(And(BeNumerically(">", len(tenKinds)), BeNumerically("<=", most)), "those of the first namespaces, and one for the others")
			Eventually(func() int { versions, _ := heard.now(); return len(versions) }).Should(Equal(namespaces))
			Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		}
		settled(number)
		// An informer has synced before it asks for a watch.
		Eventually(visited.Watches).WithTimeout(time.Minute).Should(Equal(most))
		heard.Heard()

		var first footprint
		for round := range rounds {
			r.Shuffle(number, func(i, j int) { all[i], all[j] = all[j], all[i] })
			leave, stay := all[:number/10], all[number/10:]
			before := visited.MadeFor(stay)
			labelNamespaces(ctx, key, "null", leave)
			settled(len(stay))
			Expect(heard.Heard()).To(Equal(slices.Repeat([]string{"delete one"}, len(leave))))
			labelNamespaces(ctx, key, `""`, leave)
			settled(number)
			Expect(heard.Heard()).To(Equal(slices.Repeat([]string{"add one"}, len(leave))))
			Expect(visited.MadeFor(stay)).To(Equal(before), "no request for namespaces that stay")
			if round == 0 {
				first = takes()
			}
		}
		_, wrong := heard.now()
		Expect(wrong).To(BeEmpty())
		Eventually(takes).WithTimeout(time.Minute).WithPolling(time.Second).Should(And(
			HaveField("Goroutines", BeNumerically("<=", first.Goroutines+5)),
			HaveField("Heap", BeNumerically("<", first.Heap+first.Heap/10)), // of a server that works meanwhile
		), "%d rounds have left something, beside %+v", rounds, first)
		AddReportEntry("footprint", fmt.Sprintf("%d namespaces: %+v after one round, %+v after %d", number, first, takes(), rounds))
	}, SpecTimeout(20*time.Minute))
})
