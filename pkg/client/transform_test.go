// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

// An object whose transform fails is there, and the cache cannot show it: a read says so, before the watch
// has brought the object as well as after that.
var _ = Describe("own writes whose transform fails", func() {
	const poison = "tarn.dev/poison"
	var (
		p         *program
		namespace string
	)
	for name, storage := range map[string]cache.Storage{"one watch for each view": cache.Flat, "one watch": cache.OneWatch} {
		Context("with "+name, func() {
			BeforeEach(func(ctx SpecContext) {
				namespace = newNamespace(ctx)
				p = maker{cache: cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Storage: storage}}), client: client.New}.run(ctx, cache.Options{
					DefaultTransform: func(obj any) (any, error) {
						if obj.(crclient.Object).GetAnnotations()[poison] != "" {
							return nil, errors.New("poisoned")
						}
						return obj, nil
					},
				}, crclient.CacheOptions{})
				p.watch(ctx, &corev1.ConfigMap{})
			})

			poisoned := func(name string) *corev1.ConfigMap {
				made := configMap(namespace, name, nil)
				made.Annotations = map[string]string{poison: "yes"}
				return made
			}
			get := func(ctx SpecContext, name string) error {
				return p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
			}
			says := func(err error, name string) {
				GinkgoHelper()
				Expect(apierrors.IsNotFound(err)).To(BeFalse(), "it is there: %v", err)
				reason := (*cache.NotSyncedError)(nil)
				Expect(errors.As(err, &reason)).To(BeTrue(), "%v", err)
				Expect(reason.Cause).To(Equal(cache.TransformFailed))
				Expect(reason.Object.Name).To(Equal(name))
				Expect(err).To(MatchError(ContainSubstring("poisoned")))
			}

			// others returns what selects lists without the object that was changed. One of another label is such a list when the watch has
			// reached the write: until then it fails.
			others := func(ctx SpecContext, reached bool, label crclient.MatchingLabels) []crclient.ListOption {
				GinkgoHelper()
				lists := []crclient.ListOption{crclient.MatchingFields{"metadata.name": "other"}, crclient.InNamespace("other")}
				if reached {
					return append(lists, label)
				}
				says(p.List(ctx, &corev1.ConfigMapList{}, crclient.InNamespace(namespace), label), "changed")
				return lists
			}

			It("says so after an answer that was lost", func(ctx SpecContext) {
				Expect(p.Create(ctx, configMap(namespace, "good", nil))).To(Succeed())
				p.writes.lose.Store(true)
				Expect(p.Create(ctx, poisoned("bad"))).NotTo(Succeed())
				p.writes.lose.Store(false)
				for range 3 {
					says(get(ctx, "bad"), "bad")
				}
				Expect(p.watches.reads.Load()).To(BeEquivalentTo(1), "the server was asked once")
				list := &corev1.ConfigMapList{}
				says(p.List(ctx, list, crclient.InNamespace(namespace)), "bad")
				Expect(p.List(ctx, list, crclient.InNamespace(namespace), crclient.MatchingFields{"metadata.name": "good"})).To(Succeed())
				Expect(names(list)).To(Equal([]string{"good"}))

				By("the watch, which brings it, and what comes later")
				p.watches.pass()
				Eventually(func() []*cache.NotSyncedError { return cache.NotSynced(p.cache) }).WithContext(ctx).ShouldNot(BeEmpty())
				says(get(ctx, "bad"), "bad")
				later := configMap(namespace, "later", nil)
				Expect(p.Create(ctx, later)).To(Succeed())
				Eventually(func() error {
					return p.Get(ctx, crclient.ObjectKeyFromObject(later), &corev1.ConfigMap{}, client.AsCached)
				}).WithContext(ctx).Should(Succeed())
				Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
				Expect(names(list)).To(Equal([]string{"good", "later"}))
				p.watches.hold()

				By("its deletion")
				Expect(p.Delete(ctx, poisoned("bad"))).To(Succeed())
				Expect(apierrors.IsNotFound(get(ctx, "bad"))).To(BeTrue())
			}, SpecTimeout(patience))

			for _, lose := range []bool{false, true} {
				It(fmt.Sprintf("says so of an update of what the watch has not brought, with the answer lost: %t", lose), func(ctx SpecContext) {
					changed := configMap(namespace, "changed", map[string]string{"app": "x"})
					Expect(p.Create(ctx, changed)).To(Succeed())
					list := &corev1.ConfigMapList{}
					Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
					Expect(names(list)).To(ConsistOf("changed"))
					changed.Annotations = map[string]string{poison: "yes"}
					changed.Labels = map[string]string{"app": "z"}
					p.writes.lose.Store(lose)
					err := p.Update(ctx, changed)
					p.writes.lose.Store(false)
					Expect(err == nil).To(Equal(!lose))
					missing := func(reached bool) {
						GinkgoHelper()
						says(get(ctx, "changed"), "changed")
						for _, selects := range []crclient.ListOption{
							crclient.InNamespace(""), crclient.MatchingLabels{"app": "x"}, crclient.MatchingFields{"metadata.name": "changed"}, crclient.Limit(1),
						} {
							says(p.List(ctx, list, crclient.InNamespace(namespace), selects), "changed")
							for _, walked := range cache.Iterate(ctx, p.cache, &corev1.ConfigMap{}, crclient.InNamespace(namespace), selects) {
								says(walked, "changed")
							}
						}
						for _, lists := range others(ctx, reached, crclient.MatchingLabels{"app": "z"}) {
							Expect(p.List(ctx, list, crclient.InNamespace(namespace), lists)).To(Succeed(), "it was not in this list: %v", lists)
							Expect(list.Items).To(BeEmpty())
						}
					}
					missing(false)
					By("the watch, which brings what was created, and what comes later")
					p.watches.pass()
					later := configMap(namespace, "later", nil)
					Expect(p.Create(ctx, later)).To(Succeed())
					Eventually(func() error {
						return p.Get(ctx, crclient.ObjectKeyFromObject(later), &corev1.ConfigMap{}, client.AsCached)
					}).WithContext(ctx).Should(Succeed())
					missing(true)
					p.watches.hold()
				}, SpecTimeout(patience))

				It(fmt.Sprintf("says so of an update before the watch and after it, with the answer lost: %t", lose), func(ctx SpecContext) {
					p.watches.pass()
					changed := configMap(namespace, "changed", map[string]string{"app": "x"})
					Expect(p.Create(ctx, changed)).To(Succeed())
					Eventually(func() error {
						return p.Get(ctx, crclient.ObjectKeyFromObject(changed), &corev1.ConfigMap{}, client.AsCached)
					}).WithContext(ctx).Should(Succeed())
					p.watches.hold()
					selections := [][]crclient.ListOption{
						nil, {crclient.MatchingLabels{"app": "x"}}, {crclient.MatchingFields{"metadata.name": "changed"}}, {crclient.Limit(1)},
					}
					missing := func(reached bool) {
						GinkgoHelper()
						says(get(ctx, "changed"), "changed")
						for _, selects := range selections {
							says(p.List(ctx, &corev1.ConfigMapList{}, append(selects, crclient.InNamespace(namespace))...), "changed")
						}
						list := &corev1.ConfigMapList{}
						for _, lists := range others(ctx, reached, crclient.MatchingLabels{"app": "other"}) {
							Expect(p.List(ctx, list, crclient.InNamespace(namespace), lists)).To(Succeed(), "it is not in this list: %v", lists)
							Expect(names(list)).NotTo(ContainElement("changed"))
						}
						Expect(p.List(ctx, list, crclient.InNamespace(namespace), client.AsCached)).To(Succeed())
						Expect(names(list)).To(ContainElement("changed"), "the object of before")
					}
					changed.Annotations = map[string]string{poison: "yes"}
					p.writes.lose.Store(lose)
					err := p.Update(ctx, changed)
					p.writes.lose.Store(false)
					Expect(err == nil).To(Equal(!lose))
					missing(false)

					By("the watch, which brings it, and what comes later")
					p.watches.pass()
					later := configMap(namespace, "later", nil)
					Expect(p.Create(ctx, later)).To(Succeed())
					Eventually(func() error {
						return p.Get(ctx, crclient.ObjectKeyFromObject(later), &corev1.ConfigMap{}, client.AsCached)
					}).WithContext(ctx).Should(Succeed())
					missing(true)
					p.watches.hold()

					By("a write that heals it")
					Expect(api.Get(ctx, crclient.ObjectKeyFromObject(changed), changed)).To(Succeed())
					changed.Annotations = nil
					Expect(p.Update(ctx, changed)).To(Succeed())
					Expect(get(ctx, "changed")).To(Succeed())
					list := &corev1.ConfigMapList{}
					for _, selects := range selections {
						Expect(p.List(ctx, list, append(selects, crclient.InNamespace(namespace))...)).To(Succeed())
						Expect(names(list)).To(ContainElement("changed"))
					}
				}, SpecTimeout(patience))
			}

			for name, of := range map[string]func(*corev1.ConfigMap) *corev1.ConfigMap{
				"by its name": func(c *corev1.ConfigMap) *corev1.ConfigMap { return configMap(c.Namespace, c.Name, nil) },
				"as it was":   func(c *corev1.ConfigMap) *corev1.ConfigMap { return c },
			} {
				It("does not find an object that was deleted "+name+" after an update whose answer was lost", func(ctx SpecContext) {
					p.watches.pass()
					changed := configMap(namespace, "changed", nil)
					Expect(p.Create(ctx, changed)).To(Succeed())
					Eventually(func() error {
						return p.Get(ctx, crclient.ObjectKeyFromObject(changed), &corev1.ConfigMap{}, client.AsCached)
					}).WithContext(ctx).Should(Succeed())
					p.watches.hold()
					changed.Annotations = map[string]string{poison: "yes"}
					p.writes.lose.Store(true)
					Expect(p.Update(ctx, changed)).NotTo(Succeed())
					p.writes.lose.Store(false)
					says(get(ctx, "changed"), "changed")

					Expect(p.Delete(ctx, of(changed))).To(Succeed())
					Expect(apierrors.IsNotFound(get(ctx, "changed"))).To(BeTrue(), "%v", get(ctx, "changed"))
				}, SpecTimeout(patience))
			}

			It("says so after an answer, and asks nobody", func(ctx SpecContext) {
				bad := poisoned("bad")
				Expect(p.Create(ctx, bad)).To(Succeed())
				says(get(ctx, "bad"), "bad")
				Expect(p.watches.reads.Load()).To(BeZero())

				By("a write that heals it")
				bad.Annotations = nil
				Expect(p.Update(ctx, bad)).To(Succeed())
				Expect(get(ctx, "bad")).To(Succeed())
			}, SpecTimeout(patience))
		})
	}
})
