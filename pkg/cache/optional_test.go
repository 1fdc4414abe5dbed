// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// guest is a kind that comes and goes, in a group of its own.
type guest struct {
	group string
	crds  client.Client
}

func newGuest() *guest {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	crds, err := client.New(cfg, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return &guest{group: newName() + ".example.com", crds: crds}
}

var names atomic.Int64

func newName() string { return fmt.Sprintf("guest%d", names.Add(1)) }

func (g *guest) crd(scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "guests." + g.group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: g.group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "guests", Singular: "guest", Kind: "Guest", ListKind: "GuestList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
}

// come installs the CRD, and returns when it was established.
func (g *guest) come(ctx context.Context, scope apiextensionsv1.ResourceScope) time.Time {
	GinkgoHelper()
	Expect(g.crds.Create(ctx, g.crd(scope))).To(Succeed())
	for {
		crd := g.crd(scope)
		Expect(g.crds.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return time.Now()
			}
		}
	}
}

// leave removes the CRD, and with it the objects.
func (g *guest) leave(ctx context.Context) {
	GinkgoHelper()
	Expect(g.crds.Delete(ctx, g.crd(""))).To(Succeed())
	Eventually(func() error { return g.crds.Get(ctx, client.ObjectKey{Name: "guests." + g.group}, g.crd("")) }).ShouldNot(Succeed())
}

func (g *guest) object(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(g.group + "/v1")
	u.SetKind("Guest")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// send creates an object as soon as the API server takes it.
func (g *guest) send(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	raw, err := client.New(cfg, client.Options{Mapper: g.mapper(namespace)})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error { return raw.Create(ctx, g.object(namespace, name)) }).WithPolling(time.Millisecond).Should(Succeed())
}

func (g *guest) mapper(namespace string) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	scope := meta.RESTScope(meta.RESTScopeNamespace)
	if namespace == "" {
		scope = meta.RESTScopeRoot
	}
	m.Add(g.object("", "").GroupVersionKind(), scope)
	return m
}

var optionalKinds = cache.Tuning{TuningByObject: cache.TuningByObject{Optional: ptr.To(true)}}

var _ = Describe("An optional kind", func() {
	It("comes, goes and comes back with another scope, and its controller sees it", func(ctx SpecContext) {
		log := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		namespace, g := newNamespace(ctx), newGuest()
		create(ctx, configMap(namespace, "one", "x"))
		transport, err := rest.TransportFor(cfg)
		Expect(err).NotTo(HaveOccurred())
		var asked atomic.Int64 // requests that concern the group
		newCache := func(c *rest.Config, opts cache.Options) (cache.Cache, error) {
			opts.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, g.group) {
					asked.Add(1)
				}
				return transport.RoundTrip(r)
			})}
			return cache.With(optionalKinds)(c, opts)
		}
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			NewCache: newCache, Metrics: metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{CacheSyncTimeout: syncTimeout},
		})
		Expect(err).NotTo(HaveOccurred())
		p := &program{Manager: mgr, reconciled: make(chan string, 1), ended: make(chan error, 1)}
		its := make(chan string, 1)
		p.control(&corev1.ConfigMap{}, "one", p.reconciled)
		p.control(g.object("", ""), "alice", its)
		p.run()
		Eventually(p.reconciled).Should(Receive())
		Consistently(p.ended, 2*syncTimeout).ShouldNot(Receive())
		c := mgr.GetCache()
		key := client.ObjectKey{Namespace: namespace, Name: "alice"}
		err = c.Get(ctx, key, g.object("", ""))
		Expect(meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)
		Expect(reasonOf(err).Cause).To(Equal(cache.NotServed))
		Expect(cache.Ready(c)(nil)).To(Succeed())

		established := g.come(ctx, apiextensionsv1.NamespaceScoped)
		g.send(ctx, namespace, "alice")
		Eventually(its).WithPolling(time.Millisecond).Should(Receive())
		AddReportEntry("from Established to the first reconcile", time.Since(established).String())
		Expect(c.Get(ctx, key, g.object("", ""))).To(Succeed())

		informer, err := c.GetInformer(ctx, g.object("", ""))
		Expect(err).NotTo(HaveOccurred())
		gone := make(chan any, 10)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) { gone <- obj }})
		Expect(err).NotTo(HaveOccurred())
		g.leave(ctx)
		Eventually(gone).Should(Receive())
		Eventually(func() bool { return meta.IsNoMatchError(c.Get(ctx, key, g.object("", ""))) }).Should(BeTrue())
		Eventually(quietFor(&asked)).WithTimeout(2 * patience).Should(BeZero())
		before := asked.Load()
		Expect(meta.IsNoMatchError(c.List(ctx, untypedList(g)))).To(BeTrue())
		Consistently(asked.Load, 3*time.Second).Should(Equal(before), "nobody asks for a kind that is not served")
		Expect(strings.Count(string(log.Contents()), "Failed to watch")).To(BeZero())
		Expect(strings.Count(string(log.Contents()), "is not served any more")).To(Equal(1))

		g.come(ctx, apiextensionsv1.ClusterScoped)
		g.send(ctx, "", "alice")
		Eventually(func() error { return c.Get(ctx, client.ObjectKey{Name: "alice"}, g.object("", "")) }).Should(Succeed())
		for len(its) > 0 {
			<-its // of the deletion, perhaps
		}
		again := g.object("", "alice")
		again.SetLabels(map[string]string{"set": "x"})
		raw, err := client.New(cfg, client.Options{Mapper: g.mapper("")})
		Expect(err).NotTo(HaveOccurred())
		Expect(raw.Patch(ctx, again, client.Merge)).To(Succeed())
		Eventually(its).Should(Receive())
		Expect(strings.Count(string(log.Contents()), "it is cached from now on")).To(Equal(2))
		p.stop()
		Eventually(p.ended).Should(Receive(Succeed()))
		g.leave(ctx)
	})

	It("neither ends a cache that fails fast nor keeps it from being ready, while it is not served", func(ctx SpecContext) {
		g := newGuest()
		c, err := cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Optional: ptr.To(true), OnFailure: cache.FailFast}})(cfg, cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		_, err = c.GetInformer(ctx, g.object("", ""), cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		short, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- c.Start(short) }()
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Expect(cache.Ready(c)(nil)).To(Succeed())
		g.come(ctx, apiextensionsv1.NamespaceScoped)
		Eventually(func() error { return c.List(ctx, untypedList(g)) }).Should(Succeed())
		g.leave(ctx)
		Eventually(func() bool { return meta.IsNoMatchError(c.List(ctx, untypedList(g))) }).Should(BeTrue())
		Expect(cache.Ready(c)(nil)).To(Succeed())
		Expect(ended).NotTo(Receive())
		stop()
		Eventually(ended).Should(Receive(Succeed()))
	})

	It("may be in ByObject, with DefaultNamespaces, and be cached where CRDs may not be watched", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		name, its := newUser()
		opts := cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}, "default": {}},
			ByObject:          map[client.Object]cache.ByObject{g.object("", ""): {}},
		}
		c := started(ctx, on(cache.With(cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{g.object("", ""): {Optional: ptr.To(true)}}}), its), opts)
		Expect(meta.IsNoMatchError(c.List(ctx, untypedList(g)))).To(BeTrue())
		g.come(ctx, apiextensionsv1.NamespaceScoped)
		for _, in := range []string{namespace, "default"} {
			apply(ctx, (&cache.NotSyncedError{Cause: cache.Forbidden, Namespace: in, Resource: g.object("", "").GroupVersionKind().GroupVersion().WithResource("guests")}).Manifest(), name)
		}
		g.send(ctx, namespace, "bob")
		Eventually(func() error {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return c.Get(short, client.ObjectKey{Namespace: namespace, Name: "bob"}, g.object("", ""))
		}, 3*patience).Should(Succeed())
		g.leave(ctx)
	})

	It("is removed in each scope that it had, and then asked for anew", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		c := started(ctx, cache.With(optionalKinds), cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		informer, err := c.GetInformer(ctx, g.object("", ""))
		Expect(err).NotTo(HaveOccurred())
		events := make(chan any, 10)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { events <- obj }})
		Expect(err).NotTo(HaveOccurred())
		g.come(ctx, apiextensionsv1.ClusterScoped)
		g.send(ctx, "", "alice")
		Eventually(func() error { return c.Get(ctx, client.ObjectKey{Name: "alice"}, g.object("", "")) }).Should(Succeed())

		Expect(c.RemoveInformer(ctx, g.object("", ""))).To(Succeed())
		Expect(phaseOf(c, g.group)).To(BeEmpty(), "there is no informer, in a namespace neither")
		g.leave(ctx)
		g.come(ctx, apiextensionsv1.NamespaceScoped)
		g.send(ctx, namespace, "bob")
		Eventually(func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "bob"}, g.object("", ""))
		}).Should(Succeed())
		Expect(events).To(BeEmpty(), "the handler was removed with its informer")
		g.leave(ctx)
	})

	It("is named in the missing role as discovery names it, though its plural is irregular", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		name, its := newUser()
		goose := untyped(&unstructured.Unstructured{}, g.group+"/v1", "Goose")
		c := started(ctx, on(cache.With(optionalKinds), its), cache.Options{})
		_, err := c.GetInformer(ctx, goose) // nobody knows the plural yet
		Expect(err).NotTo(HaveOccurred())

		crd := g.crd(apiextensionsv1.NamespaceScoped)
		crd.Name = "geese." + g.group
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "geese", Singular: "goose", Kind: "Goose", ListKind: "GooseList"}
		Expect(g.crds.Create(ctx, crd)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(g.crds.Delete(ctx, crd)).To(Succeed()) })
		var reason *cache.NotSyncedError
		Eventually(func(g Gomega) {
			all := cache.NotSynced(c)
			g.Expect(all).To(HaveLen(1))
			reason = all[0]
			g.Expect(reason.Cause).To(Equal(cache.Forbidden), "%v", reason)
		}).Should(Succeed())
		Expect(reason.Resource.Resource).To(Equal("geese"))
		Expect(reason).To(MatchError(ContainSubstring("resources: [geese]")))
		apply(ctx, reason.Manifest(), name)
		Eventually(func() error {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(g.group + "/v1")
			list.SetKind("GooseList")
			return c.List(short, list, client.InNamespace(namespace))
		}, 3*patience).Should(Succeed(), "the role is the one that was missing")
	})
})

func untypedList(g *guest) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(g.group + "/v1")
	list.SetKind("GuestList")
	return list
}
