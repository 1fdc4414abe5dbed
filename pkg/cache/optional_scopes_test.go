// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// countingMapper counts the questions to a RESTMapper.
type countingMapper struct {
	meta.RESTMapper
	asked atomic.Int64
}

// RESTMapping implements meta.RESTMapper.
func (m *countingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.asked.Add(1)
	return m.RESTMapper.RESTMapping(kind, versions...)
}

var _ = Describe("An optional kind with DefaultNamespaces", func() {
	It("is found by reads though ByObject names it and it turns out to be cluster-scoped", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		c := started(ctx, cache.With(optionalKinds), cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}, "default": {}},
			ByObject:          map[client.Object]cache.ByObject{g.object("", ""): {}},
		})
		err := c.List(ctx, untypedList(g))
		Expect(meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)
		g.come(ctx, apiextensionsv1.ClusterScoped)
		DeferCleanup(func(ctx SpecContext) { g.leave(ctx) })
		g.send(ctx, "", "alice")
		Eventually(func() error { return c.Get(ctx, client.ObjectKey{Name: "alice"}, g.object("", "")) }).Should(Succeed())
		list := untypedList(g)
		Expect(c.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
	})
	It("is found once though it has come with another scope before it is read", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		c := started(ctx, cache.With(optionalKinds), cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}, "default": {}},
			ByObject:          map[client.Object]cache.ByObject{g.object("", ""): {}},
		})
		g.come(ctx, apiextensionsv1.ClusterScoped)
		DeferCleanup(func(ctx SpecContext) { g.leave(ctx) })
		g.send(ctx, "", "alice")
		list := untypedList(g)
		Eventually(func() error { return c.List(ctx, list) }).Should(Succeed()) // until discovery has it
		Expect(c.Get(ctx, client.ObjectKey{Name: "alice"}, g.object("", ""))).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
	})
	It("is said to be absent, without a request for each read, if the key has no namespace", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		transport, err := rest.TransportFor(cfg)
		Expect(err).NotTo(HaveOccurred())
		var asked atomic.Int64
		c := started(ctx, cache.With(optionalKinds), cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
			HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				asked.Add(1)
				return transport.RoundTrip(r)
			})},
		})
		for range 100 {
			err := c.Get(ctx, client.ObjectKey{Name: "alice"}, g.object("", ""))
			Expect(meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)
		}
		Expect(asked.Load()).To(BeNumerically("<", 100), "not one for each read")
	})
	It("is asked for once by GetInformer, and not once for each namespace", func(ctx SpecContext) {
		transport, err := rest.TransportFor(cfg)
		Expect(err).NotTo(HaveOccurred())
		g, namespaces := newGuest(), map[string]cache.Config{}
		for i := range 50 {
			namespaces["namespace-"+strconv.Itoa(i)] = cache.Config{}
		}
		mapper := &countingMapper{}
		mapper.RESTMapper, err = apiutil.NewDynamicRESTMapper(cfg, &http.Client{Transport: transport})
		Expect(err).NotTo(HaveOccurred())
		c := started(ctx, cache.With(optionalKinds), cache.Options{DefaultNamespaces: namespaces, Mapper: mapper})
		_, err = c.GetInformer(ctx, g.object("", ""), cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		Expect(mapper.asked.Load()).To(BeNumerically("<=", 2), "for its scope, and for its resource")
	})
	It("is cached in these namespaces alone when it comes back as a namespaced one", func(ctx SpecContext) {
		namespace, other, g := newNamespace(ctx), newNamespace(ctx), newGuest()
		transport, err := rest.TransportFor(cfg)
		Expect(err).NotTo(HaveOccurred())
		g.come(ctx, apiextensionsv1.ClusterScoped)
		Eventually(func() error { // a kind that discovery does not have yet is taken for a namespaced one
			mapper, err := apiutil.NewDynamicRESTMapper(cfg, &http.Client{Transport: transport})
			Expect(err).NotTo(HaveOccurred())
			_, err = mapper.RESTMapping(g.object("", "").GroupVersionKind().GroupKind(), "v1")
			return err
		}).Should(Succeed())
		var all atomic.Int64
		c := started(ctx, cache.With(optionalKinds), cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
			HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, g.group+"/v1/guests") {
					all.Add(1)
				}
				return transport.RoundTrip(r)
			})},
		})
		informer, err := c.GetInformer(ctx, g.object("", ""))
		Expect(err).NotTo(HaveOccurred())
		added := make(chan string, 10)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			u := obj.(*unstructured.Unstructured)
			added <- u.GetNamespace() + "/" + u.GetName()
		}})
		Expect(err).NotTo(HaveOccurred())
		g.leave(ctx)
		Eventually(func() bool { return meta.IsNoMatchError(c.List(ctx, untypedList(g))) }).Should(BeTrue())
		all.Store(0)
		g.come(ctx, apiextensionsv1.NamespaceScoped)
		DeferCleanup(func(ctx SpecContext) { g.leave(ctx) })
		g.send(ctx, other, "outside")
		g.send(ctx, namespace, "inside")
		Eventually(func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "inside"}, g.object("", ""))
		}).Should(Succeed())
		Consistently(all.Load).Should(BeZero())
		Expect(added).To(BeEmpty())
	})
})
