// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/pkg/cache"
)

var _ = Describe("A kind that cannot be watched", func() {
	It("is refused at once if it cannot be listed either", func(ctx SpecContext) {
		c := started(ctx, cache.New, cache.Options{})
		review := untyped(&unstructured.Unstructured{}, "authentication.k8s.io/v1", "TokenReview")
		err := c.Get(ctx, client.ObjectKey{Name: "one"}, review) // ctx ends with the spec
		Expect(apierrors.IsMethodNotSupported(err)).To(BeTrue(), "%v", err)
		Expect(reasonOf(err).Cause).To(Equal(cache.NotWatchable))
		Expect(err).To(MatchError(ContainSubstring("client.Options.Cache.DisableFor")))
		_, err = c.GetInformer(ctx, review)
		Expect(reasonOf(err).Cause).To(Equal(cache.NotWatchable))
	})

	It("is dormant with its verbs if it is optional, and a read asks nobody", func(ctx SpecContext) {
		log := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		b := newBackend(newNamespace(ctx))
		b.listOnly.Store(true)
		b.register(ctx)
		b.becomes(ctx, apiregistrationv1.ConditionTrue)
		opts, asked := asking(ctx, b.group)
		c := started(ctx, cache.With(optionalKinds), opts)
		informer, err := c.GetInformer(ctx, b.object("", ""), cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		events := make(chan string, 20)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { events <- "add" }, DeleteFunc: func(any) { events <- "delete" },
		})
		Expect(err).NotTo(HaveOccurred())
		read := func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: "alice"}, b.object("", ""))
		}
		Eventually(func(g Gomega) { // the watch may be refused, or the group unknown, before discovery has the verbs
			phase, why := phaseOf(c, b.group)
			g.Expect(phase).To(Equal(inspected.Dormant))
			g.Expect(apierrors.IsMethodNotSupported(why)).To(BeTrue())
		}).Should(Succeed())
		err = read()
		Expect(apierrors.IsMethodNotSupported(err)).To(BeTrue(), "%v", err)
		Expect(meta.IsNoMatchError(err)).To(BeFalse(), "it is served")
		Expect(reasonOf(err).Cause).To(Equal(cache.NotWatchable))
		Expect(err).To(MatchError(And(ContainSubstring("get, list"), ContainSubstring("client.Options.Cache.DisableFor"))))
		Expect(cache.Ready(c)(nil)).To(Succeed())

		// After its start the cache looks ten times, the last time after ten seconds.
		Eventually(quietFor(asked)).WithTimeout(3 * patience).Should(BeZero())
		lines := 0
		for line := range strings.Lines(string(log.Contents())) {
			if strings.Contains(line, b.group) {
				lines++
			}
		}
		Expect(lines).To(BeNumerically("<=", 3))
		before := asked.Load()
		Expect(reasonOf(read()).Cause).To(Equal(cache.NotWatchable))
		Expect(asked.Load()).To(Equal(before), "a read asks nobody")
		Expect(events).To(BeEmpty())
	})
})
