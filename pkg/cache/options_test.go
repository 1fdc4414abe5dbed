// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// Each option is shown to change something.
var _ = Describe("Cache options", func() {
	var a, b string

	BeforeEach(func(ctx SpecContext) {
		a, b = newNamespace(ctx), newNamespace(ctx)
		create(ctx, configMap(a, "one", "x"), configMap(a, "two", "y"), configMap(b, "one", "x"), configMap(b, "two", "y"))
	})

	// cached returns the ConfigMaps of the spec's namespaces that a cache with opts
	// holds.
	cached := func(ctx context.Context, opts cache.Options) []string {
		GinkgoHelper()
		list := &corev1.ConfigMapList{}
		Expect(started(ctx, cache.New, opts).List(ctx, list)).To(Succeed())
		return namesIn(list, a, b)
	}
	byConfigMap := func(o cache.ByObject) map[client.Object]cache.ByObject {
		return map[client.Object]cache.ByObject{&corev1.ConfigMap{}: o}
	}
	setX := labels.SelectorFromSet(labels.Set{"set": "x"})
	setY := labels.SelectorFromSet(labels.Set{"set": "y"})
	nameOne := fields.OneTermEqualSelector("metadata.name", "one")
	nameTwo := fields.OneTermEqualSelector("metadata.name", "two")

	Describe("selectors", func() {
		It("apply to all kinds by default", func(ctx SpecContext) {
			Expect(cached(ctx, cache.Options{DefaultLabelSelector: setX})).To(ConsistOf(a+"/one", b+"/one"))
			Expect(cached(ctx, cache.Options{DefaultFieldSelector: nameTwo})).To(ConsistOf(a+"/two", b+"/two"))
		})
		It("of a kind go before the defaults", func(ctx SpecContext) {
			Expect(cached(ctx, cache.Options{
				DefaultLabelSelector: setX, DefaultFieldSelector: nameOne,
				ByObject: byConfigMap(cache.ByObject{Label: setY, Field: nameTwo}),
			})).To(ConsistOf(a+"/two", b+"/two"))
			Expect(cached(ctx, cache.Options{
				DefaultLabelSelector: setX, ByObject: byConfigMap(cache.ByObject{}),
			})).To(ConsistOf(a+"/one", b+"/one"), "what the kind does not say is defaulted")
			Expect(cached(ctx, cache.Options{
				DefaultLabelSelector: setX, ByObject: byConfigMap(cache.ByObject{Label: labels.Everything()}),
			})).To(HaveLen(4), "an explicit selector prevents that")
		})
		It("of a namespace go before the defaults and the kind", func(ctx SpecContext) {
			Expect(cached(ctx, cache.Options{
				DefaultLabelSelector: setX,
				DefaultNamespaces:    map[string]cache.Config{a: {LabelSelector: setY}, b: {}},
			})).To(ConsistOf(a+"/two", b+"/one"))
			Expect(cached(ctx, cache.Options{
				DefaultLabelSelector: setY,
				ByObject: byConfigMap(cache.ByObject{
					Field:      nameOne,
					Namespaces: map[string]cache.Config{a: {LabelSelector: setX}, b: {FieldSelector: nameTwo}},
				}),
			})).To(ConsistOf(a+"/one", b+"/two"))
			Expect(cached(ctx, cache.Options{
				DefaultNamespaces: map[string]cache.Config{a: {LabelSelector: setX}},
				ByObject:          byConfigMap(cache.ByObject{Namespaces: map[string]cache.Config{a: {}, b: {}}}),
			})).To(ConsistOf(a+"/one", b+"/one", b+"/two"), "the namespace's default holds for its entry in the kind")
		})
		It("of a default namespace go before the kind only if the kind names no namespaces", func(ctx SpecContext) {
			defaults := map[string]cache.Config{a: {LabelSelector: setX}, b: {}}
			Expect(cached(ctx, cache.Options{
				DefaultNamespaces: defaults, ByObject: byConfigMap(cache.ByObject{Label: setY}),
			})).To(ConsistOf(a+"/one", b+"/two"), "nil stands for a copy of DefaultNamespaces")
			Expect(cached(ctx, cache.Options{
				DefaultNamespaces: defaults,
				ByObject:          byConfigMap(cache.ByObject{Label: setY, Namespaces: map[string]cache.Config{a: {}, b: {}}}),
			})).To(ConsistOf(a+"/two", b+"/two"))
		})
	})

	Describe("namespaces", func() {
		It("limit what is cached", func(ctx SpecContext) {
			Expect(cached(ctx, cache.Options{DefaultNamespaces: map[string]cache.Config{b: {}}})).To(ConsistOf(b+"/one", b+"/two"))
		})
		It("do not limit cluster-scoped kinds", func(ctx SpecContext) {
			c := started(ctx, cache.New, cache.Options{DefaultNamespaces: map[string]cache.Config{b: {}}})
			list := &corev1.NamespaceList{}
			Expect(c.List(ctx, list)).To(Succeed())
			Expect(len(list.Items)).To(BeNumerically(">", 2))
			Expect(c.Get(ctx, client.ObjectKey{Name: a, Namespace: "ignored"}, &corev1.Namespace{})).To(Succeed())
		})
		It("of a kind replace the default ones, and an empty map stands for all", func(ctx SpecContext) {
			defaults := map[string]cache.Config{a: {}}
			Expect(cached(ctx, cache.Options{DefaultNamespaces: defaults,
				ByObject: byConfigMap(cache.ByObject{Namespaces: map[string]cache.Config{b: {}}})})).To(ConsistOf(b+"/one", b+"/two"))
			Expect(cached(ctx, cache.Options{DefaultNamespaces: defaults,
				ByObject: byConfigMap(cache.ByObject{})})).To(ConsistOf(a+"/one", a+"/two"))
			Expect(cached(ctx, cache.Options{DefaultNamespaces: defaults,
				ByObject: byConfigMap(cache.ByObject{Namespaces: map[string]cache.Config{}})})).To(HaveLen(4))
		})
		It("may have settings of their own, and all others another", func(ctx SpecContext) {
			Expect(cached(ctx, cache.Options{DefaultNamespaces: map[string]cache.Config{
				a: {FieldSelector: nameOne}, cache.AllNamespaces: {FieldSelector: nameTwo},
			}})).To(ConsistOf(a+"/one", b+"/two"))
		})
		It("are not modified by New", func(ctx SpecContext) {
			given := cache.Options{
				DefaultLabelSelector: setX,
				DefaultNamespaces:    map[string]cache.Config{a: {}, cache.AllNamespaces: {}},
				ByObject:             byConfigMap(cache.ByObject{Namespaces: map[string]cache.Config{b: {}}}),
			}
			_, err := cache.New(cfg, given)
			Expect(err).NotTo(HaveOccurred())
			Expect(given.DefaultNamespaces).To(Equal(map[string]cache.Config{a: {}, cache.AllNamespaces: {}}))
			for _, o := range given.ByObject {
				Expect(o).To(Equal(cache.ByObject{Namespaces: map[string]cache.Config{b: {}}}))
			}
		})
	})

	Describe("transforms", func() {
		mark := func(with string) toolscache.TransformFunc {
			return func(in any) (any, error) {
				if obj, err := meta.Accessor(in); err == nil && obj.GetAnnotations()["mark"] == "" {
					obj.SetAnnotations(map[string]string{"mark": with})
				}
				return in, nil
			}
		}
		It("apply by default, by kind and by namespace", func(ctx SpecContext) {
			c := started(ctx, cache.New, cache.Options{
				DefaultTransform: mark("default"),
				ByObject: byConfigMap(cache.ByObject{
					Transform:  mark("kind"),
					Namespaces: map[string]cache.Config{a: {}, b: {Transform: mark("namespace")}},
				}),
			})
			marked := func(obj client.Object, namespace, name string) string {
				GinkgoHelper()
				Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)).To(Succeed())
				return obj.GetAnnotations()["mark"]
			}
			Expect(marked(&corev1.ConfigMap{}, a, "one")).To(Equal("kind"))
			Expect(marked(&corev1.ConfigMap{}, b, "one")).To(Equal("namespace"))
			Expect(marked(&corev1.Service{}, "default", "kubernetes")).To(Equal("default"))
		})
		It("can strip the managed fields", func(ctx SpecContext) {
			key := client.ObjectKey{Namespace: a, Name: "one"}
			full, stripped := &corev1.ConfigMap{}, &corev1.ConfigMap{}
			Expect(started(ctx, cache.New, cache.Options{}).Get(ctx, key, full)).To(Succeed())
			Expect(full.ManagedFields).NotTo(BeEmpty())
			c := started(ctx, cache.New, cache.Options{DefaultTransform: cache.TransformStripManagedFields()})
			Expect(c.Get(ctx, key, stripped)).To(Succeed())
			Expect(stripped.ManagedFields).To(BeNil())
		})
	})

	DescribeTable("UnsafeDisableDeepCopy", func(ctx SpecContext, opts func() cache.Options, get []client.GetOption, shares bool) {
		c := started(ctx, cache.New, opts())
		one, again := &corev1.ConfigMap{}, &corev1.ConfigMap{}
		for _, obj := range []client.Object{one, again} {
			Expect(c.Get(ctx, client.ObjectKey{Namespace: a, Name: "one"}, obj, get...)).To(Succeed())
		}
		Expect(reflect.ValueOf(one.Labels).Pointer() == reflect.ValueOf(again.Labels).Pointer()).To(Equal(shares))
	},
		Entry("is off by default", func() cache.Options { return cache.Options{} }, nil, false),
		Entry("holds for all kinds", func() cache.Options {
			return cache.Options{DefaultUnsafeDisableDeepCopy: ptr.To(true)}
		}, nil, true),
		Entry("holds for a kind, before the default", func() cache.Options {
			return cache.Options{DefaultUnsafeDisableDeepCopy: ptr.To(true), ByObject: byConfigMap(cache.ByObject{UnsafeDisableDeepCopy: ptr.To(false)})}
		}, nil, false),
		Entry("holds for a namespace", func() cache.Options {
			return cache.Options{DefaultNamespaces: map[string]cache.Config{a: {UnsafeDisableDeepCopy: ptr.To(true)}}}
		}, nil, true),
		Entry("holds for a call", func() cache.Options { return cache.Options{} }, []client.GetOption{client.UnsafeDisableDeepCopy}, true),
		Entry("holds for a call on a cache of namespaces", func() cache.Options {
			return cache.Options{DefaultNamespaces: map[string]cache.Config{a: {}, b: {}}}
		}, []client.GetOption{client.UnsafeDisableDeepCopy}, true),
	)

	It("holds UnsafeDisableDeepCopy of a call for a cluster-scoped kind in a cache of namespaces", func(ctx SpecContext) {
		c := started(ctx, cache.New, cache.Options{DefaultNamespaces: map[string]cache.Config{a: {}}})
		one, again := &corev1.Namespace{}, &corev1.Namespace{}
		for _, obj := range []client.Object{one, again} {
			Expect(c.Get(ctx, client.ObjectKey{Name: a}, obj, client.UnsafeDisableDeepCopy)).To(Succeed())
		}
		Expect(reflect.ValueOf(one.Labels).Pointer()).To(Equal(reflect.ValueOf(again.Labels).Pointer()))
	})

	Describe("what connects the cache", func() {
		It("uses the HTTP client, whose requests tell of bookmarks and the user agent", func(ctx SpecContext) {
			watches := func(opts cache.Options) *requests {
				transport, err := rest.TransportFor(cfg)
				Expect(err).NotTo(HaveOccurred())
				seen := &requests{next: transport}
				opts.HTTPClient = &http.Client{Transport: seen}
				opts.Mapper, err = apiutil.NewDynamicRESTMapper(cfg, opts.HTTPClient)
				Expect(err).NotTo(HaveOccurred())
				Expect(started(ctx, cache.New, opts).Get(ctx, client.ObjectKey{Namespace: a, Name: "one"}, &corev1.ConfigMap{})).To(Succeed())
				return seen
			}
			Expect(watches(cache.Options{}).bookmarks.Load()).To(BeNumerically(">", 0))
			Expect(watches(cache.Options{DefaultEnableWatchBookmarks: ptr.To(false)}).bookmarks.Load()).To(BeZero())
			Expect(watches(cache.Options{ByObject: byConfigMap(cache.ByObject{EnableWatchBookmarks: ptr.To(false)})}).bookmarks.Load()).To(BeZero())
			Expect(watches(cache.Options{DefaultNamespaces: map[string]cache.Config{a: {EnableWatchBookmarks: ptr.To(false)}}}).bookmarks.Load()).To(BeZero())
		})
		It("uses the scheme", func(ctx SpecContext) {
			c := started(ctx, cache.New, cache.Options{Scheme: runtime.NewScheme()})
			err := c.Get(ctx, client.ObjectKey{Namespace: a, Name: "one"}, &corev1.ConfigMap{})
			Expect(runtime.IsNotRegisteredError(err) || strings.Contains(err.Error(), "no kind is registered")).To(BeTrue(), "%v", err)
		})
		It("uses the mapper", func(ctx SpecContext) {
			c := started(ctx, cache.New, cache.Options{Mapper: meta.NewDefaultRESTMapper(nil)})
			err := c.Get(ctx, client.ObjectKey{Namespace: a, Name: "one"}, &corev1.ConfigMap{})
			Expect(meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)
		})
		It("tells the watch error handler", func(ctx SpecContext) {
			failed := make(chan error, 100)
			nobody, err := env.AddUser("nobody")
			Expect(err).NotTo(HaveOccurred())
			c, err := cache.New(nobody, cache.Options{
				Mapper: fixedMapper(),
				DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
					select {
					case failed <- err:
					default:
					}
				},
			})
			Expect(err).NotTo(HaveOccurred())
			start(c)
			_, err = c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
			Expect(err).NotTo(HaveOccurred())
			Eventually(failed).Should(Receive(MatchError(ContainSubstring("forbidden"))))
		})
	})

	Describe("SyncPeriod", func() {
		// resynced counts the updates without a change that a handler gets.
		resynced := func(ctx context.Context, opts cache.Options) *atomic.Int64 {
			GinkgoHelper()
			informer, err := started(ctx, cache.New, opts).GetInformer(ctx, &corev1.ConfigMap{})
			Expect(err).NotTo(HaveOccurred())
			count := &atomic.Int64{}
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
				if before.(client.Object).GetResourceVersion() == after.(client.Object).GetResourceVersion() {
					count.Add(1)
				}
			}})
			Expect(err).NotTo(HaveOccurred())
			return count
		}
		It("resyncs all kinds, a kind or a namespace", func(ctx SpecContext) {
			second := ptr.To(time.Second) // the shortest that informers know
			counts := []*atomic.Int64{
				resynced(ctx, cache.Options{SyncPeriod: second}),
				resynced(ctx, cache.Options{ByObject: byConfigMap(cache.ByObject{SyncPeriod: second})}),
				resynced(ctx, cache.Options{DefaultNamespaces: map[string]cache.Config{a: {SyncPeriod: second}}}),
			}
			for _, count := range counts {
				Eventually(count.Load).Should(BeNumerically(">", 0))
			}
			Expect(resynced(ctx, cache.Options{}).Load()).To(BeZero())
		})
	})

	Describe("NewInformer", func() {
		It("makes the informers, and the cache reads from their stores", func(ctx SpecContext) {
			made := 0
			Expect(cached(ctx, cache.Options{
				DefaultNamespaces: map[string]cache.Config{a: {}, b: {}},
				NewInformer: func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
					made++
					Expect(obj).To(BeAssignableToTypeOf(&corev1.ConfigMap{}))
					Expect(resync).To(BeNumerically("~", 10*time.Hour, float64(time.Hour)))
					return toolscache.NewSharedIndexInformer(lw, obj, resync, indexers)
				},
			})).To(HaveLen(4))
			Expect(made).To(Equal(2))
		})
	})

	Describe("ReaderFailOnMissingInformer", func() {
		It("makes reads of a kind without an informer fail", func(ctx SpecContext) {
			c := started(ctx, cache.New, cache.Options{ReaderFailOnMissingInformer: true})
			want := &cache.ErrResourceNotCached{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
			Expect(c.List(ctx, &corev1.ConfigMapList{})).To(MatchError(want))
			Expect(c.Get(ctx, client.ObjectKey{Namespace: a, Name: "one"}, &corev1.ConfigMap{})).To(MatchError(want))
			_, err := c.GetInformer(ctx, &corev1.ConfigMap{})
			Expect(err).NotTo(HaveOccurred())
			Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
		})
	})
})

// requests counts the watches that ask for bookmarks.
type requests struct {
	next      http.RoundTripper
	bookmarks atomic.Int64
}

func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("allowWatchBookmarks") == "true" {
		r.bookmarks.Add(1)
	}
	return r.next.RoundTrip(req)
}

// fixedMapper knows ConfigMaps without asking the server.
func fixedMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(configMapKind, meta.RESTScopeNamespace)
	return mapper
}
