// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/index"
)

var _ = Describe("The life of a cache", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		create(ctx, configMap(namespace, "one", "x"))
	})

	for name, opts := range map[string]func() cache.Options{
		"all namespaces": func() cache.Options { return cache.Options{} },
		"some namespaces": func() cache.Options {
			return cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}, "default": {}}}
		},
	} {
		Context("with "+name, func() {
			It("refuses reads before it is started", func(ctx SpecContext) {
				c, err := cache.New(cfg, opts())
				Expect(err).NotTo(HaveOccurred())
				var notStarted *cache.ErrCacheNotStarted
				Expect(errors.As(c.List(ctx, &corev1.ConfigMapList{}), &notStarted)).To(BeTrue())
				err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, &corev1.ConfigMap{})
				Expect(errors.As(err, &notStarted)).To(BeTrue())
				start(c) // ends what the reads have asked for
				Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
				Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
			})

			It("leaves no goroutine when Start has returned", func(ctx SpecContext) {
				goroutines, leave := family(ctx)
				c, err := cache.New(cfg, opts())
				Expect(err).NotTo(HaveOccurred())
				stop := start(c)
				for _, v := range views {
					informer, err := c.GetInformer(ctx, v.object())
					Expect(err).NotTo(HaveOccurred())
					Eventually(informer.HasSyncedChecker().Done()).Should(BeClosed())
					registration, err := informer.AddEventHandler(newJournal())
					Expect(err).NotTo(HaveOccurred())
					Eventually(registration.HasSyncedChecker().Done()).Should(BeClosed())
				}
				Expect(c.RemoveInformer(ctx, &corev1.ConfigMap{})).To(Succeed())
				// Started, and removed before it has synced.
				_, err = c.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
				Expect(err).NotTo(HaveOccurred())
				Expect(c.RemoveInformer(ctx, &corev1.Secret{})).To(Succeed())
				Expect(goroutines()).NotTo(BeEmpty())
				stop()
				leave()
				Eventually(goroutines, time.Second).Should(BeEmpty())
			})

			It("can still be read after its end, and starts nothing more", func(ctx SpecContext) {
				c, err := cache.New(cfg, opts())
				Expect(err).NotTo(HaveOccurred())
				stop := start(c)
				Expect(c.WaitForCacheSync(ctx)).To(BeTrue(), "it is started")
				key := client.ObjectKey{Namespace: namespace, Name: "one"}
				Expect(c.Get(ctx, key, &corev1.ConfigMap{})).To(Succeed())
				stop()
				Expect(c.Get(ctx, key, &corev1.ConfigMap{})).To(Succeed())
				Expect(c.Get(ctx, key, &corev1.Secret{})).To(MatchError(ContainSubstring("the cache has been stopped")))
			})

			It("starts once", func(ctx SpecContext) {
				c := started(ctx, cache.New, opts())
				Expect(c.Start(ctx)).To(MatchError(ContainSubstring("informer already started")))
			})

			It("needs no leader election", func() {
				c, err := cache.New(cfg, opts())
				Expect(err).NotTo(HaveOccurred())
				Expect(c.(manager.LeaderElectionRunnable).NeedLeaderElection()).To(BeFalse())
			})

			It("answers with a time-out when the caller's context ends, and says what it waited for", func(ctx SpecContext) {
				o := opts()
				o.Mapper = fixedMapper()
				nobody, err := env.AddUser("nobody")
				Expect(err).NotTo(HaveOccurred())
				failed := make(chan error, 100)
				o.DefaultWatchErrorHandler = func(_ context.Context, _ *toolscache.Reflector, err error) {
					select {
					case failed <- err:
					default:
					}
				}
				c, err := cache.New(nobody, o)
				Expect(err).NotTo(HaveOccurred())
				start(c)
				Expect(c.WaitForCacheSync(ctx)).To(BeTrue(), "it is started, and has no informer yet")

				short, cancel := context.WithCancel(ctx)
				go func() {
					defer GinkgoRecover()
					Eventually(failed).Should(Receive())
					cancel()
				}()
				err = c.Get(short, client.ObjectKey{Namespace: namespace, Name: "one"}, &corev1.ConfigMap{})
				Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
				Expect(err).To(MatchError(And(ContainSubstring("ConfigMap (v1)"), ContainSubstring("forbidden"))))
				Expect(c.WaitForCacheSync(short)).To(BeFalse())
			})
		})
	}

	It("lets several informers be waited for as one", func(ctx SpecContext) {
		var fakes []*controllertest.FakeInformer
		c, err := cache.New(cfg, cache.Options{
			DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}},
			NewInformer: func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
				fakes = append(fakes, controllertest.NewFakeInformer())
				return fakes[len(fakes)-1]
			},
		})
		Expect(err).NotTo(HaveOccurred())
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		registration, err := informer.AddEventHandler(newJournal())
		Expect(err).NotTo(HaveOccurred())
		synced, handled := informer.HasSyncedChecker().Done(), registration.HasSyncedChecker().Done()
		start(c)
		Expect(fakes).To(HaveLen(2))
		fakes[0].Synced()
		Expect(informer.HasSynced()).To(BeFalse())
		Expect(registration.HasSynced()).To(BeFalse())
		Expect(synced).NotTo(BeClosed())
		fakes[1].Synced()
		Expect(informer.HasSynced()).To(BeTrue())
		Expect(registration.HasSynced()).To(BeTrue())
		Eventually(synced).Should(BeClosed())
		Eventually(handled).Should(BeClosed())
		Expect(informer.HasSyncedChecker().Name()).To(ContainSubstring("FakeInformer, FakeInformer"))
	})

	It("refuses to remove the handler of another informer", func(ctx SpecContext) {
		c := started(ctx, cache.New, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}, "default": {}}})
		one, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		other, err := c.GetInformer(ctx, &corev1.Secret{})
		Expect(err).NotTo(HaveOccurred())
		registration, err := one.AddEventHandlerWithResyncPeriod(newJournal(), time.Hour)
		Expect(err).NotTo(HaveOccurred())
		Expect(other.RemoveEventHandler(registration)).To(MatchError(ContainSubstring("of another informer")))
		again, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		Expect(again.RemoveEventHandler(registration)).To(Succeed(), "the informer is the same, got twice")
		Expect(one.AddIndexers(toolscache.Indexers{"mine": toolscache.MetaNamespaceIndexFunc})).To(Succeed())
		Expect(again.AddIndexers(toolscache.Indexers{"mine": toolscache.MetaNamespaceIndexFunc})).NotTo(Succeed())
	})
})

var _ = Describe("Bad input", func() {
	type badOptions struct {
		opts func() cache.Options
		says []string
	}
	DescribeTable("to New is refused", func(bad badOptions) {
		_, err := cache.New(cfg, bad.opts())
		Expect(err).To(HaveOccurred())
		for _, words := range bad.says {
			Expect(err).To(MatchError(ContainSubstring(words)))
		}
	},
		Entry("namespaces for a cluster-scoped kind", badOptions{func() cache.Options {
			return cache.Options{ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}: {Namespaces: map[string]cache.Config{"default": {}}},
			}}
		}, []string{"*v1.Node", "not namespaced", "remove it"}}),
		Entry("two entries for one kind", badOptions{func() cache.Options {
			return cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {}, &corev1.Pod{}: {}}}
		}, []string{"two entries", "Pod"}}),
		Entry("a nil object", badOptions{func() cache.Options {
			return cache.Options{ByObject: map[client.Object]cache.ByObject{(*corev1.Pod)(nil): {}}}
		}, []string{"ByObject", "nil"}}),
		Entry("a kind that the server does not serve", badOptions{func() cache.Options {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
			return cache.Options{ByObject: map[client.Object]cache.ByObject{u: {}}}
		}, []string{"ByObject", "Widget", "install its CRD"}}),
		Entry("a label selector that cannot be sent", badOptions{func() cache.Options {
			return cache.Options{DefaultLabelSelector: labels.Nothing()}
		}, []string{"labels.Nothing()", "everything"}}),
		Entry("a field selector that cannot be sent", badOptions{func() cache.Options {
			return cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Field: fields.Nothing()}}}
		}, []string{"*v1.Pod", "fields.Nothing()"}}),
		Entry("a selector of a namespace that cannot be sent", badOptions{func() cache.Options {
			return cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {LabelSelector: labels.Nothing()}}}
		}, []string{"DefaultNamespaces", "labels.Nothing()"}}),
	)

	It("is refused by New: no config", func() {
		_, err := cache.New(nil, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring("rest config is nil")))
	})

	Context("to a cache", func() {
		var c cache.Cache
		BeforeEach(func(ctx SpecContext) {
			c = started(ctx, cache.New, cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}})
		})
		widget := func() *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
			return u
		}
		key := client.ObjectKey{Namespace: "default", Name: "one"}

		// each runs check on the error that every method gives for obj.
		each := func(ctx context.Context, obj client.Object, check func(method string, err error)) {
			check("Get", c.Get(ctx, key, obj))
			_, err := c.GetInformer(ctx, obj)
			check("GetInformer", err)
			check("RemoveInformer", c.RemoveInformer(ctx, obj))
			check("IndexField", c.IndexField(ctx, obj, "f", func(client.Object) []string { return nil }))
		}

		It("a nil object", func(ctx SpecContext) {
			for _, obj := range []client.Object{nil, (*corev1.Pod)(nil)} {
				each(ctx, obj, func(method string, err error) {
					Expect(err).To(MatchError(ContainSubstring("the object is nil")), method)
				})
			}
			Expect(c.List(ctx, nil)).To(MatchError(ContainSubstring("the object is nil")))
			Expect(c.List(ctx, (*corev1.PodList)(nil))).To(MatchError(ContainSubstring("the object is nil")))
		})

		It("a type that is not in the scheme", func(ctx SpecContext) {
			each(ctx, &controllertest.UnconventionalListType{}, func(method string, err error) {
				Expect(err).To(MatchError(And(ContainSubstring("UnconventionalListType"), ContainSubstring("AddToScheme"))), method)
			})
			_, err := c.GetInformerForKind(ctx, widget().GroupVersionKind())
			Expect(runtime.IsNotRegisteredError(err)).To(BeTrue())
			Expect(err).To(MatchError(And(ContainSubstring("Widget"), ContainSubstring("AddToScheme"))))
		})

		It("a kind without a CRD", func(ctx SpecContext) {
			each(ctx, widget(), func(method string, err error) {
				Expect(meta.IsNoMatchError(err)).To(BeTrue(), "%s: %v", method, err)
				Expect(err).To(MatchError(And(ContainSubstring("Widget"), ContainSubstring("install its CRD"))), method)
			})
		})

		It("a namespace that is not cached", func(ctx SpecContext) {
			says := And(ContainSubstring("limited to default"), ContainSubstring(`add namespace "other"`))
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "other", Name: "one"}, &corev1.ConfigMap{})).To(MatchError(says))
			Expect(c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("other"))).To(MatchError(says))
		})

		It("a namespace for a cluster-scoped kind", func(ctx SpecContext) {
			Expect(c.List(ctx, &corev1.NodeList{}, client.InNamespace("default"))).To(MatchError(ContainSubstring("cluster-scoped")))
		})

		It("a field that is not indexed", func(ctx SpecContext) {
			err := c.List(ctx, &corev1.PodList{}, client.MatchingFields{"spec.nodeName": "n"})
			var notIndexed *index.NotIndexedError
			Expect(errors.As(err, &notIndexed)).To(BeTrue(), "%v", err)
			Expect(notIndexed.Field).To(Equal("spec.nodeName"))
		})

		It("a continue token", func(ctx SpecContext) {
			Expect(c.List(ctx, &corev1.PodList{}, client.Continue("token"))).To(MatchError(ContainSubstring("continue key is not valid")))
		})

		It("an untyped list without a kind", func(ctx SpecContext) {
			Expect(c.List(ctx, &unstructured.UnstructuredList{})).To(MatchError(ContainSubstring("Kind")))
		})

		It("an object in place of a list", func(ctx SpecContext) {
			pod := &unstructured.Unstructured{}
			pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			Expect(c.List(ctx, pod)).To(MatchError(ContainSubstring(fmt.Sprintf("cannot list into %T", pod))))
		})
	})
})
