// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/pkg/cache"
	ownwrites "github.com/tarn-dev/tarn/pkg/client"
	"github.com/tarn-dev/tarn/pkg/informers"
	"github.com/tarn-dev/tarn/pkg/lease"
)

// here returns the file of its caller, and a line below that of the call.
func here(below int) string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", file, line+below)
}

// cached returns the informers of a cache.
func cached(c cache.Cache) []*informers.MapEntry {
	return c.(interface {
		Informers() []*informers.MapEntry
	}).Informers()
}

// delegating returns a client that reads all representations from a cache.
func delegating(c cache.Cache, made client.NewClientFunc) client.Client {
	GinkgoHelper()
	reads, err := made(cfg, client.Options{Cache: &client.CacheOptions{Reader: c, Unstructured: true}})
	Expect(err).NotTo(HaveOccurred())
	return reads
}

// reads are the ways to read ConfigMaps of a cache. Each returns its call site.
var reads = map[string]func(ctx context.Context, c cache.Cache, v view, key client.ObjectKey) (where string, err error){
	"Get": func(ctx context.Context, c cache.Cache, v view, key client.ObjectKey) (string, error) {
		return here(0), c.Get(ctx, key, v.object())
	},
	"List": func(ctx context.Context, c cache.Cache, v view, _ client.ObjectKey) (string, error) {
		return here(0), c.List(ctx, v.list())
	},
	"List by a field": func(ctx context.Context, c cache.Cache, v view, key client.ObjectKey) (string, error) {
		return here(0), c.List(ctx, v.list(), client.MatchingFields{"metadata.name": key.Name})
	},
	"List of a page": func(ctx context.Context, c cache.Cache, v view, key client.ObjectKey) (string, error) {
		return here(0), c.List(ctx, v.list(), client.InNamespace(key.Namespace), client.Limit(1))
	},
	"Iterate": func(ctx context.Context, c cache.Cache, v view, _ client.ObjectKey) (string, error) {
		where := here(1)
		for _, err := range cache.Iterate(ctx, c, v.object()) {
			return where, err
		}
		return where, nil
	},
	"Get by a client": func(ctx context.Context, c cache.Cache, v view, key client.ObjectKey) (string, error) {
		from := delegating(c, client.New)
		return here(0), from.Get(ctx, key, v.object())
	},
	"List by a client of a namespace": func(ctx context.Context, c cache.Cache, v view, key client.ObjectKey) (string, error) {
		from := client.NewNamespacedClient(delegating(c, client.New), key.Namespace)
		return here(0), from.List(ctx, v.list())
	},
	"Get by a client that shows its own writes": func(ctx context.Context, c cache.Cache, v view, key client.ObjectKey) (string, error) {
		from := delegating(c, ownwrites.New)
		return here(0), from.Get(ctx, key, v.object())
	},
}

// startedByReads has a cache whose log and metrics tell of informers that reads have started.
type startedByReads struct {
	namespace string
	key       client.ObjectKey // of a ConfigMap
	log       *gbytes.Buffer
	registry  *prometheus.Registry
}

func newStartedByReads(ctx context.Context) *startedByReads {
	GinkgoHelper()
	s := &startedByReads{namespace: newNamespace(ctx), log: gbytes.NewBuffer(), registry: prometheus.NewRegistry()}
	s.key = client.ObjectKey{Namespace: s.namespace, Name: "one"}
	create(ctx, configMap(s.namespace, "one", "x"))
	GinkgoWriter.TeeTo(s.log)
	DeferCleanup(GinkgoWriter.ClearTeeWriters)
	return s
}

func (s *startedByReads) cache(ctx context.Context, t cache.Tuning, opts cache.Options) cache.Cache {
	GinkgoHelper()
	t.Registerer = s.registry
	return started(ctx, cache.With(t), opts)
}

// lines returns those of the log.
func (s *startedByReads) lines() (lines []string) {
	for line := range strings.Lines(string(s.log.Contents())) {
		if strings.Contains(line, "A read has started an informer") {
			lines = append(lines, line)
		}
	}
	return lines
}

// counted returns what metrics have counted of a kind.
func (s *startedByReads) counted(kind string) float64 {
	GinkgoHelper()
	return counted(s.registry, "tarn_cache_read_started_informers_total", "kind", kind)
}

var _ = Describe("A read that starts an informer", func() {
	var s *startedByReads
	BeforeEach(func(ctx SpecContext) { s = newStartedByReads(ctx) })

	for _, name := range slices.Sorted(maps.Keys(reads)) {
		It("is logged once with its call site, and counted: "+name, func(ctx SpecContext) {
			read := reads[name]
			for n, v := range views {
				c := s.cache(ctx, cache.Tuning{Name: fmt.Sprint("read-", n)}, cache.Options{})
				var where string
				for range 3 {
					var err error
					where, err = read(ctx, c, v, s.key)
					Expect(err).NotTo(HaveOccurred())
				}
				Expect(s.lines()).To(HaveLen(n + 1))
				Expect(s.lines()[n]).To(And(
					ContainSubstring(where+" (github.com/tarn-dev/tarn/pkg/cache_test."),
					ContainSubstring("ConfigMap (v1)"), ContainSubstring(`"representation"="`+strings.TrimSuffix(v.name, "-only")+`"`),
				))
				Expect(counted(s.registry, "tarn_cache_read_started_informers_total", "cache", fmt.Sprint("read-", n))).To(Equal(1.0))
				Expect(cached(c)).To(HaveLen(1))
				Expect(cached(c)[0].StartedBy()).To(HavePrefix(where + " (github.com/tarn-dev/tarn/pkg/cache_test."))
			}
		})
	}

	It("is found behind the client of a manager", func(ctx SpecContext) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{NewCache: cache.With(cache.Tuning{Registerer: s.registry}), Metrics: metricsserver.Options{BindAddress: "0"}})
		Expect(err).NotTo(HaveOccurred())
		var where string
		read := make(chan error, 1)
		Expect(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			where = here(1)
			read <- mgr.GetClient().Get(ctx, s.key, &corev1.ConfigMap{})
			return nil
		}))).To(Succeed())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(running) }()
		Eventually(read).Should(Receive(BeNil()))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		Expect(s.lines()).To(ConsistOf(ContainSubstring(where + " (github.com/tarn-dev/tarn/pkg/cache_test.")))
	})

	It("is not one that finds what the program has set up", func(ctx SpecContext) {
		c := s.cache(ctx, cache.Tuning{}, cache.Options{})
		_, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		_, err = c.GetInformerForKind(ctx, corev1.SchemeGroupVersion.WithKind("Secret"))
		Expect(err).NotTo(HaveOccurred())
		Expect(c.IndexField(ctx, views[1].object(), "set", func(obj client.Object) []string { return []string{obj.GetLabels()["set"]} })).To(Succeed())
		l, err := lease.Acquire(ctx, c, &corev1.Pod{}, lease.Scope{Namespace: s.namespace})
		Expect(err).NotTo(HaveOccurred())
		Expect(l.WaitForSync(ctx)).To(Succeed())
		for _, v := range views { // metadata are those of the objects
			Expect(c.List(ctx, v.list())).To(Succeed())
		}
		Expect(c.List(ctx, &corev1.SecretList{})).To(Succeed())
		Expect(c.List(ctx, &corev1.PodList{}, client.InNamespace(s.namespace))).To(Succeed())
		Expect(s.lines()).To(BeEmpty())
		Expect(counted(s.registry, "tarn_cache_read_started_informers_total", "version", "v1")).To(BeZero())
		Expect(cached(c)).To(HaveLen(4))
		for _, entry := range cached(c) {
			Expect(entry.StartedBy()).To(BeEmpty(), entry.String())
		}
	})

	It("is one of many at once", func(ctx SpecContext) {
		c := s.cache(ctx, cache.Tuning{}, cache.Options{})
		all := sync.WaitGroup{}
		for range 20 {
			all.Go(func() {
				defer GinkgoRecover()
				Expect(c.Get(ctx, s.key, &corev1.ConfigMap{})).To(Succeed())
			})
		}
		all.Wait()
		Expect(s.lines()).To(HaveLen(1))
		Expect(s.counted("ConfigMap")).To(Equal(1.0))
	})

	It("is told in one line of all namespaces, and counted in each", func(ctx SpecContext) {
		opts := cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}, newNamespace(ctx): {}, newNamespace(ctx): {}}}
		c := s.cache(ctx, cache.Tuning{}, opts)
		Expect(c.Get(ctx, s.key, &corev1.ConfigMap{})).To(Succeed())
		Expect(s.lines()).To(ConsistOf(And(ContainSubstring("ConfigMap (v1) in namespace"), ContainSubstring(s.namespace))))
		Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
		Expect(s.lines()).To(HaveLen(2))
		Expect(s.lines()[1]).To(ContainSubstring("ConfigMap (v1) in 2 namespaces"))
		Expect(s.counted("ConfigMap")).To(Equal(3.0))
		for _, entry := range cached(c) {
			Expect(entry.StartedBy()).To(ContainSubstring("started_by_read_test.go:"))
		}
	})

	It("is told while it waits, and not again", func(ctx SpecContext) {
		_, nobody := newUser()
		c := started(ctx, on(cache.New, nobody), cache.Options{Mapper: fixedMapper()})
		waiting, giveUp := context.WithCancel(ctx)
		read := make(chan error, 2)
		for range cap(read) {
			go func() { read <- c.List(waiting, &corev1.ConfigMapList{}) }()
			Eventually(s.lines).Should(HaveLen(1))
		}
		Expect(read).NotTo(Receive())
		giveUp()
		for range cap(read) {
			Eventually(read).Should(Receive(HaveOccurred()))
		}
		Expect(s.lines()).To(HaveLen(1))
	})

	It("starts none of a kind that is not served", func(ctx SpecContext) {
		c := s.cache(ctx, cache.Tuning{}, cache.Options{})
		g := newGuest()
		Expect(c.Get(ctx, s.key, g.object("", ""))).NotTo(Succeed())
		Expect(s.lines()).To(BeEmpty())
		Expect(s.counted("Guest")).To(BeZero())
	})

	It("starts another one when the informer was removed", func(ctx SpecContext) {
		c := s.cache(ctx, cache.Tuning{}, cache.Options{})
		for n := range 2 {
			Expect(c.Get(ctx, s.key, &corev1.ConfigMap{})).To(Succeed())
			Expect(s.lines()).To(HaveLen(n + 1))
			Expect(s.counted("ConfigMap")).To(Equal(float64(n + 1)))
			Expect(c.RemoveInformer(ctx, &corev1.ConfigMap{})).To(Succeed())
		}
	})

	It("starts none where another representation is watched already", func(ctx SpecContext) {
		c := s.cache(ctx, cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.OneWatch}}, cache.Options{})
		for _, v := range views {
			Expect(c.Get(ctx, s.key, v.object())).To(Succeed())
		}
		Expect(s.lines()).To(ConsistOf(ContainSubstring(`"representation"="structured"`)))
		Expect(s.counted("ConfigMap")).To(Equal(1.0))
	})
})

var _ = Describe("ReaderFailOnMissingInformer of one kind", func() {
	var s *startedByReads
	BeforeEach(func(ctx SpecContext) { s = newStartedByReads(ctx) })
	notCached := &cache.ErrResourceNotCached{GVK: configMapKind}
	// ofConfigMaps sets the policy; any representation names the kind.
	ofConfigMaps := func(fails bool) map[client.Object]cache.TuningByObject {
		return map[client.Object]cache.TuningByObject{views[2].object(): {ReaderFailOnMissingInformer: ptr.To(fails)}}
	}

	for _, v := range views {
		It("has its reads fail until the program has an informer, and no others: "+v.name, func(ctx SpecContext) {
			c := s.cache(ctx, cache.Tuning{ByObject: ofConfigMaps(true)}, cache.Options{})
			for name, read := range reads {
				_, err := read(ctx, c, v, s.key)
				Expect(err).To(MatchError(notCached), name)
			}
			Expect(cached(c)).To(BeEmpty())
			Expect(c.List(ctx, &corev1.SecretList{})).To(Succeed())
			Expect(s.lines()).To(ConsistOf(ContainSubstring("Secret (v1)")))
			Expect(s.counted("ConfigMap")).To(BeZero())

			informer, err := c.GetInformer(ctx, v.object())
			Expect(err).NotTo(HaveOccurred())
			Expect(informer.HasSynced()).To(BeTrue())
			for name, read := range reads {
				_, err := read(ctx, c, v, s.key)
				Expect(err).NotTo(HaveOccurred(), name)
			}
			Expect(c.RemoveInformer(ctx, v.object())).To(Succeed())
			Expect(c.Get(ctx, s.key, v.object())).To(MatchError(notCached))
			Expect(s.lines()).To(HaveLen(1))
		})

		It("lets its reads start an informer where no others may: "+v.name, func(ctx SpecContext) {
			c := s.cache(ctx, cache.Tuning{ByObject: ofConfigMaps(false)}, cache.Options{ReaderFailOnMissingInformer: true})
			Expect(c.List(ctx, &corev1.SecretList{})).To(MatchError(&cache.ErrResourceNotCached{GVK: corev1.SchemeGroupVersion.WithKind("Secret")}))
			Expect(s.lines()).To(BeEmpty())
			for name, read := range reads {
				_, err := read(ctx, c, v, s.key)
				Expect(err).NotTo(HaveOccurred(), name)
			}
			Expect(s.lines()).To(ConsistOf(ContainSubstring("ConfigMap (v1)")))
		})
	}

	DescribeTable("comes before that of all kinds, which comes before the option of the cache", func(ctx SpecContext, option bool, all, kind *bool, fails bool) {
		t := cache.Tuning{TuningByObject: cache.TuningByObject{ReaderFailOnMissingInformer: all}}
		if kind != nil {
			t.ByObject = ofConfigMaps(*kind)
		}
		err := s.cache(ctx, t, cache.Options{ReaderFailOnMissingInformer: option}).Get(ctx, s.key, &corev1.ConfigMap{})
		if fails {
			Expect(err).To(MatchError(notCached))
			return
		}
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("none", false, nil, nil, false),
		Entry("the option", true, nil, nil, true),
		Entry("all kinds", false, ptr.To(true), nil, true),
		Entry("all kinds before the option", true, ptr.To(false), nil, false),
		Entry("one kind before all", false, ptr.To(true), ptr.To(false), false),
		Entry("one kind before all and the option", true, ptr.To(false), ptr.To(true), true),
	)

	It("is served by leases, indexes, and informers of the whole objects", func(ctx SpecContext) {
		c := s.cache(ctx, cache.Tuning{ByObject: ofConfigMaps(true)}, cache.Options{})
		l, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: s.namespace})
		Expect(err).NotTo(HaveOccurred())
		Expect(l.WaitForSync(ctx)).To(Succeed())
		Expect(c.Get(ctx, s.key, &corev1.ConfigMap{})).To(Succeed())
		Expect(c.List(ctx, &corev1.ConfigMapList{})).To(MatchError(notCached), "the lease does not hold all namespaces")
		Expect(c.Get(ctx, s.key, views[1].object())).To(MatchError(notCached), "nor does it hold others")
		Expect(c.Get(ctx, s.key, views[2].object())).To(MatchError(notCached))

		set := func(obj client.Object) []string { return []string{obj.GetLabels()["set"]} }
		Expect(c.IndexField(ctx, &corev1.ConfigMap{}, "set", set)).To(Succeed())
		list := &corev1.ConfigMapList{}
		Expect(c.List(ctx, list, client.MatchingFields{"set": "x"}, client.InNamespace(s.namespace))).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(c.Get(ctx, s.key, views[2].object())).To(Succeed(), "metadata are those of the objects")
		Expect(s.lines()).To(BeEmpty())
	})

	It("leaves a read that asks the API server", func(ctx SpecContext) {
		c := s.cache(ctx, cache.Tuning{ByObject: ofConfigMaps(true)}, cache.Options{})
		Expect(c.Get(ctx, s.key, &corev1.ConfigMap{}, cache.ReadThrough())).To(Succeed())
		Expect(cached(c)).To(BeEmpty())
	})
})
