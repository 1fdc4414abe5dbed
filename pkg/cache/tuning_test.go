// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/pkg/cache"
)

var _ = Describe("Tuning", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		create(ctx, configMap(namespace, "one", "x"), configMap(namespace, "two", "y"))
	})
	key := func() client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: "one"} }

	decodedMaps := map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {Storage: cache.Decoded}}
	DescribeTable("decides how objects are kept", func(ctx SpecContext, t cache.Tuning, opts cache.Options, decoded bool) {
		informer, err := started(ctx, cache.With(t), opts).GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		store := informer.(toolscache.SharedIndexInformer).GetStore()
		one, _, err := store.GetByKey(key().String())
		Expect(err).NotTo(HaveOccurred())
		again, _, err := store.GetByKey(key().String())
		Expect(err).NotTo(HaveOccurred())
		Expect(one).To(Equal(again))
		Expect(one == again).To(Equal(decoded), "one object is there only if it is decoded")
	},
		Entry("flat by default", cache.Tuning{}, cache.Options{}, false),
		Entry("decoded for a kind", cache.Tuning{ByObject: decodedMaps}, cache.Options{}, true),
		Entry("not for another", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.Secret{}: {Storage: cache.Decoded}}}, cache.Options{}, false),
		Entry("decoded for all", cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.Decoded}}, cache.Options{}, true),
		Entry("flat for a kind, decoded for the others", cache.Tuning{
			TuningByObject: cache.TuningByObject{Storage: cache.Decoded},
			ByObject:       map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {Storage: cache.Flat}},
		}, cache.Options{}, false),
		Entry("as the default for a kind whose entry leaves it open", cache.Tuning{
			TuningByObject: cache.TuningByObject{Storage: cache.Decoded},
			ByObject:       map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {Window: 5}},
		}, cache.Options{}, true),
		Entry("decoded if nothing is copied", cache.Tuning{}, cache.Options{DefaultUnsafeDisableDeepCopy: ptr.To(true)}, true),
	)

	Describe("views", func() {
		// watches makes a cache that counts the watches it opens.
		watches := func(ctx context.Context, t cache.Tuning) (cache.Cache, *atomic.Int64) {
			GinkgoHelper()
			transport, err := rest.TransportFor(cfg)
			Expect(err).NotTo(HaveOccurred())
			count := &atomic.Int64{}
			opts := cache.Options{HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("watch") != "" {
					count.Add(1)
				}
				return transport.RoundTrip(r)
			})}}
			opts.Mapper, err = apiutil.NewDynamicRESTMapper(cfg, opts.HTTPClient)
			Expect(err).NotTo(HaveOccurred())
			return started(ctx, cache.With(t), opts), count
		}
		for _, v := range views[:2] {
			It("serve metadata from "+v.name+" objects that are there", func(ctx SpecContext) {
				c, count := watches(ctx, cache.Tuning{})
				full := v.object()
				Expect(c.Get(ctx, key(), full)).To(Succeed())
				metadata := views[2]
				for _, opts := range [][]client.GetOption{nil, {client.UnsafeDisableDeepCopy}} {
					got := metadata.object()
					Expect(c.Get(ctx, key(), got, opts...)).To(Succeed())
					Expect(got.GetObjectKind().GroupVersionKind()).To(Equal(configMapKind))
					Expect(got.GetUID()).To(Equal(full.GetUID()))
					Expect(got.GetManagedFields()).To(Equal(full.GetManagedFields()))
					Expect(got.GetCreationTimestamp().Time).To(BeTemporally("==", full.GetCreationTimestamp().Time))
				}
				for _, opts := range [][]client.ListOption{nil, {client.UnsafeDisableDeepCopy}} {
					list := metadata.list()
					Expect(c.List(ctx, list, append(opts, client.InNamespace(namespace), client.MatchingLabels{"set": "x"})...)).To(Succeed())
					Expect(namesIn(list, namespace)).To(Equal([]string{namespace + "/one"}))
					Expect(list.(*metav1.PartialObjectMetadataList).Items[0].GroupVersionKind()).To(Equal(configMapKind))
				}
				Expect(count.Load()).To(Equal(int64(1)))
			})
		}
		DescribeTable("may be separate", func(ctx SpecContext, t cache.Tuning, want int64) {
			c, count := watches(ctx, t)
			Expect(c.Get(ctx, key(), &corev1.ConfigMap{})).To(Succeed())
			Expect(c.Get(ctx, key(), views[2].object())).To(Succeed())
			Expect(count.Load()).To(Equal(want))
		},
			Entry("of all kinds", cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.SeparateMetadata}}, int64(2)),
			Entry("of one", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {Storage: cache.SeparateMetadata}}}, int64(2)),
			Entry("of all but one", cache.Tuning{
				TuningByObject: cache.TuningByObject{Storage: cache.SeparateMetadata},
				ByObject:       map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {Storage: cache.Flat}},
			}, int64(1)),
		)
		It("show what a transform has left of the objects, unless they are separate", func(ctx SpecContext) {
			strip := func(obj any) (any, error) {
				if cm, ok := obj.(*corev1.ConfigMap); ok {
					cm.Labels = nil
				}
				return obj, nil
			}
			for storage, labels := range map[cache.Storage]types.GomegaMatcher{cache.Flat: BeEmpty(), cache.SeparateMetadata: HaveKey("set")} {
				c := started(ctx, cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Storage: storage}}), cache.Options{DefaultTransform: strip})
				Expect(c.Get(ctx, key(), &corev1.ConfigMap{})).To(Succeed())
				metadata := views[2].object()
				Expect(c.Get(ctx, key(), metadata)).To(Succeed())
				Expect(metadata.GetLabels()).To(labels)
			}
		})
		It("stay those of metadata in a namespace that has them, when lists of several are read", func(ctx SpecContext) {
			other := newNamespace(ctx)
			create(ctx, configMap(other, "three", "x"))
			strip := func(obj any) (any, error) {
				if cm, ok := obj.(*corev1.ConfigMap); ok {
					cm.Labels = nil // says who serves a read
				}
				return obj, nil
			}
			c := started(ctx, cache.New, cache.Options{
				DefaultTransform: strip, DefaultNamespaces: map[string]cache.Config{namespace: {}, other: {}},
			})
			metadata := views[2]
			Expect(c.Get(ctx, key(), metadata.object())).To(Succeed())
			Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
			list := &metav1.PartialObjectMetadataList{TypeMeta: metadata.list().(*metav1.PartialObjectMetadataList).TypeMeta}
			Expect(c.List(ctx, list)).To(Succeed())
			Expect(list.Items).To(HaveLen(3))
			for _, item := range list.Items {
				if item.Namespace == namespace {
					Expect(item.Labels).To(HaveKey("set"), "what is read must not become older from one read to the next")
				} else {
					Expect(item.Labels).To(BeEmpty())
				}
			}
		})
		It("are separate for informers", func(ctx SpecContext) {
			c, count := watches(ctx, cache.Tuning{})
			Expect(c.Get(ctx, key(), &corev1.ConfigMap{})).To(Succeed())
			_, err := c.GetInformer(ctx, views[2].object())
			Expect(err).NotTo(HaveOccurred())
			Expect(count.Load()).To(Equal(int64(2)), "handlers of metadata get metadata")
		})
	})

	DescribeTable("bounds the window, and counts the handlers that fall out of it", func(ctx SpecContext, t cache.Tuning) {
		registry := prometheus.NewRegistry()
		t.Registerer = registry
		c := started(ctx, cache.With(t), cache.Options{})
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		blocked, proceed := make(chan struct{}, 100), make(chan struct{})
		updates := &atomic.Int64{}
		last := &atomic.Value{}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) {
			if obj.(client.Object).GetNamespace() != namespace {
				return
			}
			blocked <- struct{}{}
			<-proceed
			updates.Add(1)
			last.Store(obj.(client.Object).GetLabels()["set"])
		}})
		Expect(err).NotTo(HaveOccurred())
		Eventually(registration.HasSyncedChecker().Done()).Should(BeClosed())

		obj := &corev1.ConfigMap{}
		Expect(api.Get(ctx, key(), obj)).To(Succeed())
		for i := range 20 {
			obj.Labels["set"] = strconv.Itoa(i)
			Expect(api.Update(ctx, obj)).To(Succeed())
			if i == 0 {
				Eventually(blocked).Should(Receive())
			}
		}
		Eventually(func() string {
			read := &corev1.ConfigMap{}
			Expect(c.Get(ctx, key(), read)).To(Succeed())
			return read.ResourceVersion
		}).Should(Equal(obj.ResourceVersion), "the store is not held up")
		close(proceed)
		Eventually(last.Load).Should(Equal("19"))
		Expect(updates.Load()).To(BeNumerically("<", 8))
		Expect(total(registry, "tarn_informer_handler_lagged_total")).To(Equal(1.0))

		other := cache.With(cache.Tuning{Registerer: registry})
		_, err = other(cfg, cache.Options{})
		Expect(err).NotTo(HaveOccurred(), "caches may share a registerer")
	},
		Entry("of all kinds", cache.Tuning{TuningByObject: cache.TuningByObject{Window: 4}}),
		Entry("of one", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {Window: 4}}}),
	)

	It("names the cache in its metrics, for as long as it lives", func(ctx SpecContext) {
		registry := prometheus.NewRegistry()
		newCache := cache.With(cache.Tuning{Name: "orders", Registerer: registry})
		running, stop := context.WithCancel(ctx)
		defer stop()
		first, err := newCache(cfg, cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- first.Start(running) }()
		Expect(first.WaitForCacheSync(ctx)).To(BeTrue())
		Expect(first.Get(ctx, key(), &corev1.ConfigMap{})).To(Succeed())
		families, err := registry.Gather()
		Expect(err).NotTo(HaveOccurred())
		Expect(families).NotTo(BeEmpty())
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				Expect(metric.GetLabel()).To(ContainElement(And(
					HaveField("GetName()", "cache"), HaveField("GetValue()", "orders"),
				)))
			}
		}

		_, err = newCache(cfg, cache.Options{})
		Expect(err).To(MatchError(And(ContainSubstring("cache tuning"), ContainSubstring(`"orders"`), ContainSubstring("another cache"))))
		stop()
		Expect(<-ended).To(Succeed())
		_, err = newCache(cfg, cache.Options{})
		Expect(err).NotTo(HaveOccurred(), "the name is free when the cache has ended")
	})

	It("keeps its name when it is started twice", func(ctx SpecContext) {
		newCache := cache.With(cache.Tuning{Name: "started-twice"})
		first := started(ctx, newCache, cache.Options{})
		Expect(first.Start(ctx)).To(MatchError(ContainSubstring("already started")))
		_, err := newCache(cfg, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring("another cache")))
	})

	It("keeps its name while it runs, though nobody else refers to it", func(ctx SpecContext) {
		newCache := cache.With(cache.Tuning{Name: "running"})
		running, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		func() {
			c, err := newCache(cfg, cache.Options{})
			Expect(err).NotTo(HaveOccurred())
			go func() { ended <- c.Start(running) }()
			Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		}()
		for range 3 {
			runtime.GC()
		}
		_, err := newCache(cfg, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring("another cache")))
		stop()
		Expect(<-ended).To(Succeed())
	})

	It("gives its name back, and that of its informers, when it is garbage and was never started", func(ctx SpecContext) {
		registry := prometheus.NewRegistry()
		newCache := cache.With(cache.Tuning{Name: "forgotten", Registerer: registry})
		func() {
			c, err := newCache(cfg, cache.Options{})
			Expect(err).NotTo(HaveOccurred())
			Expect(c.IndexField(ctx, &corev1.ConfigMap{}, "any", func(client.Object) []string { return nil })).To(Succeed())
			Expect(registry.Gather()).NotTo(BeEmpty())
		}()
		Eventually(func() error {
			runtime.GC()
			c, err := newCache(cfg, cache.Options{})
			if err != nil {
				return err
			}
			Expect(registry.Gather()).To(BeEmpty())
			_, err = c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
			Expect(err).NotTo(HaveOccurred())
			return nil
		}).Should(Succeed())
	})

	It("keeps no decoded objects without a budget", func(ctx SpecContext) {
		registry := prometheus.NewRegistry()
		c := started(ctx, cache.With(cache.Tuning{Registerer: registry, DecodedBudget: -1}), cache.Options{})
		list := &corev1.ConfigMapList{}
		Expect(c.List(ctx, list, client.UnsafeDisableDeepCopy)).To(Succeed())
		Expect(list.Items).NotTo(BeEmpty())
		Expect(total(registry, "tarn_informer_decoded_objects")).To(BeZero())
	})

	It("tells of objects, decoded ones and label indexes, until the informer is removed", func(ctx SpecContext) {
		var objects []client.Object
		for i := range 130 { // fewer are not worth an index
			objects = append(objects, configMap(namespace, "many-"+strconv.Itoa(i), "x"))
		}
		create(ctx, objects...)
		registry := prometheus.NewRegistry()
		c := started(ctx, cache.With(cache.Tuning{Registerer: registry}), cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
		})
		_, err := c.GetInformer(ctx, &corev1.ConfigMap{}) // one that a read starts would stay counted
		Expect(err).NotTo(HaveOccurred())
		list := &corev1.ConfigMapList{}
		for range 3 { // the first ones are not worth an index
			Expect(c.List(ctx, list, client.MatchingLabels{"set": "x"})).To(Succeed())
		}
		Expect(total(registry, "tarn_informer_objects")).To(BeNumerically(">=", 132))
		Expect(total(registry, "tarn_informer_label_indexes")).To(Equal(1.0))
		Expect(counted(registry, "tarn_informer_memory_bytes", "part", "label_indexes")).To(BeNumerically(">", 132*8))
		Expect(total(registry, "tarn_informer_decoded_objects")).To(BeZero())
		Expect(c.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)).To(Succeed())
		Expect(total(registry, "tarn_informer_decoded_objects")).To(BeEquivalentTo(len(list.Items)))
		Expect(counted(registry, "tarn_informer_memory_bytes", "part", "shared")).To(BeNumerically(">", 132*100))
		Expect(c.RemoveInformer(ctx, &corev1.ConfigMap{})).To(Succeed())
		Expect(registry.Gather()).To(BeEmpty())
	})

	DescribeTable("refuses bad values", func(t cache.Tuning, says string) {
		_, err := cache.With(t)(cfg, cache.Options{})
		Expect(err).To(MatchError(And(ContainSubstring("cache tuning"), ContainSubstring(says))))
	},
		Entry("a negative window", cache.Tuning{TuningByObject: cache.TuningByObject{Window: -1}}, "Window is -1"),
		Entry("a negative window of a kind", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {Window: -1}}}, "ByObject[*v1.ConfigMap]: the Window is -1"),
		Entry("a negative time of silence", cache.Tuning{TuningByObject: cache.TuningByObject{WatchSilence: -1}}, "WatchSilence is -1ns"),
		Entry("a negative time of silence of a kind", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {WatchSilence: -1}}}, "ByObject[*v1.ConfigMap]: the WatchSilence is -1ns"),
		Entry("an unknown storage", cache.Tuning{TuningByObject: cache.TuningByObject{Storage: "flat"}}, `Storage is "flat"; use Flat, Decoded, SeparateMetadata or OneWatch`),
		Entry("an unknown storage of a kind", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {Storage: "x"}}}, `ByObject[*v1.ConfigMap]: Storage is "x"`),
		Entry("a name of a cache without one", cache.Tuning{Name: "unnamed-1"}, `Name "unnamed-1"`),
		Entry("a nil object", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{nil: {}}}, "ByObject: the object is nil"),
		Entry("an object without a kind", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&metav1.PartialObjectMetadata{}: {}}}, "ByObject: Object 'Kind' is missing"),
		Entry("fields of all kinds", cache.Tuning{TuningByObject: cache.TuningByObject{Fields: []string{"metadata"}}}, "Fields and Whole are those of one kind"),
		Entry("no fields", fieldsOf(&corev1.ConfigMap{}), "ByObject[*v1.ConfigMap]: Fields of ConfigMap (v1): no field is named"),
		Entry("a field that is no path", fieldsOf(&corev1.ConfigMap{}, "data[a]"), `"data[a]" is no path`),
		Entry("a field twice", fieldsOf(&corev1.ConfigMap{}, "data", "data"), `"data" is there twice`),
		Entry("a field that the Go type has not", fieldsOf(&corev1.ConfigMap{}, "spec"), `v1.ConfigMap has no field "spec"`),
		Entry("a field that the Go type of content has not", fieldsOf(views[1].object(), "spec"), `v1.ConfigMap has no field "spec"`),
		Entry("a field of a text", fieldsOf(&corev1.ConfigMap{}, "data.a.b"), "data.a is a string"),
		Entry("two entries of a kind", cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {}, views[1].object(): {}}}, "two entries for"),
	)
})

// fieldsOf returns the settings of a kind with a projection.
func fieldsOf(obj client.Object, fields ...string) cache.Tuning {
	return cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{obj: {Fields: append([]string{}, fields...)}}}
}

// total returns the sum of a metric over all informers.
func total(from prometheus.Gatherer, name string) float64 {
	GinkgoHelper()
	families, err := from.Gather()
	Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.Metric {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
