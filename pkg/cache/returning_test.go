// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/internal/specs"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// versioned is a version of a guest.
func versioned(name string, served, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: served, Storage: stored,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
	}
}

// change sets the versions of a definition that is there.
func (g *guest) change(ctx context.Context, versions ...apiextensionsv1.CustomResourceDefinitionVersion) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": versions}})
	Expect(err).NotTo(HaveOccurred())
	Expect(g.crds.Patch(ctx, g.crd(""), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// sendAs creates an object in a version as soon as the API server takes it.
func (g *guest) sendAs(ctx context.Context, version, namespace, name string) {
	GinkgoHelper()
	obj := g.object(namespace, name)
	obj.SetAPIVersion(g.group + "/" + version)
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(obj.GroupVersionKind(), meta.RESTScopeNamespace)
	raw, err := client.New(cfg, client.Options{Mapper: m})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error { return raw.Create(ctx, obj.DeepCopy()) }).WithPolling(time.Millisecond).Should(Succeed())
}

var _ = Describe("An optional kind that is served again", func() {
	It("is listed once, and its controller sees it soon after Established", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		transport, err := rest.TransportFor(cfg)
		Expect(err).NotTo(HaveOccurred())
		var looks, listed, refused atomic.Int64 // at discovery, lists and watches, and requests that were told to come back later
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			Metrics: metricsserver.Options{BindAddress: "0"},
			NewCache: func(c *rest.Config, opts cache.Options) (cache.Cache, error) {
				opts.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					answer, err := transport.RoundTrip(r)
					switch {
					case err != nil || !strings.Contains(r.URL.Path, g.group):
					case !strings.HasSuffix(r.URL.Path, "/guests"):
						looks.Add(1)
					case answer.StatusCode == http.StatusOK:
						listed.Add(1)
					case answer.Header.Get("Retry-After") != "":
						refused.Add(1)
					}
					return answer, err
				})}
				return cache.With(optionalKinds)(c, opts)
			},
		})
		Expect(err).NotTo(HaveOccurred())
		p := &program{Manager: mgr, ended: make(chan error, 1)}
		its := make(chan string, 1)
		p.control(g.object("", ""), "alice", its)
		p.run()
		key := client.ObjectKey{Namespace: namespace, Name: "alice"}
		var took []time.Duration
		for range 7 {
			Eventually(func() bool { return meta.IsNoMatchError(mgr.GetCache().Get(ctx, key, g.object("", ""))) }).Should(BeTrue())
			for len(its) > 0 {
				<-its // of the deletion, perhaps
			}
			looks.Store(0)
			listed.Store(0)
			established := g.come(ctx, apiextensionsv1.NamespaceScoped)
			g.send(ctx, namespace, "alice")
			Eventually(its).WithPolling(time.Millisecond).Should(Receive())
			took = append(took, time.Since(established))
			Expect(listed.Load()).To(Equal(int64(1)), "one list that is a watch")
			if os.Getenv("TARN_WATCH_CACHE") != "upstream" && !specs.OnOracle() { // which refuse requests for a kind until its cache is ready
				Expect(refused.Load()).To(BeZero(), "client-go waits a second")
			}
			Expect(looks.Load()).To(BeNumerically("<=", 30), "each change of the definition is followed by looks that are further and further apart")
			g.leave(ctx)
		}
		slices.Sort(took)
		AddReportEntry("from Established to the first reconcile: median and longest of seven", took[3].String()+", "+took[6].String())
	})

	It("follows in its version when another one is stored, and is dormant while its version is not served", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		c := started(ctx, cache.With(optionalKinds), cache.Options{})
		informer, err := c.GetInformer(ctx, g.object("", ""))
		Expect(err).NotTo(HaveOccurred())
		events := make(chan string, 20)
		note := func(what string, obj any) {
			if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			u := obj.(*unstructured.Unstructured)
			events <- what + " " + u.GetName() + " " + strings.TrimPrefix(u.GetAPIVersion(), g.group+"/")
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { note("add", obj) }, DeleteFunc: func(obj any) { note("delete", obj) },
		})
		Expect(err).NotTo(HaveOccurred())
		next := func(want ...string) {
			GinkgoHelper()
			var got []string
			for range want {
				var one string
				Eventually(events).Should(Receive(&one))
				got = append(got, one)
			}
			Expect(got).To(ConsistOf(want))
		}
		absent := func() bool {
			return meta.IsNoMatchError(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "first"}, g.object("", "")))
		}

		g.come(ctx, apiextensionsv1.NamespaceScoped)
		g.send(ctx, namespace, "first")
		next("add first v1")
		g.change(ctx, versioned("v1", true, false), versioned("v2", true, true)) // the server ends its watches
		g.sendAs(ctx, "v2", namespace, "second")
		next("add second v1")

		g.change(ctx, versioned("v1", false, false), versioned("v2", true, true))
		next("delete first v1", "delete second v1")
		Eventually(absent).Should(BeTrue())
		g.change(ctx, versioned("v1", true, false), versioned("v2", true, true))
		next("add first v1", "add second v1")

		g.leave(ctx)
		next("delete first v1", "delete second v1")
		Eventually(absent).Should(BeTrue())
		crd := g.crd(apiextensionsv1.NamespaceScoped)
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{versioned("v1", true, false), versioned("v2", true, true)}
		Expect(g.crds.Create(ctx, crd)).To(Succeed())
		g.sendAs(ctx, "v2", namespace, "third")
		next("add third v1")
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "third"}, g.object("", ""))).To(Succeed())
		g.leave(ctx)

		crd = g.crd(apiextensionsv1.NamespaceScoped)
		next("delete third v1")
		Eventually(absent).Should(BeTrue()) // a watch of before would tell of the fourth: without a watch cache it is one of the same keys
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{versioned("v2", true, true)}
		Expect(g.crds.Create(ctx, crd)).To(Succeed())
		g.sendAs(ctx, "v2", namespace, "fourth")
		Consistently(absent, 300*time.Millisecond).Should(BeTrue(), "it has come back without the version of the informer")
		Expect(events).NotTo(Receive())
		g.leave(ctx)
	})

	It("is cached though the notice of its CRD is lost: the watches that tell of it were cut, and begin again", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		injector := faults.New()
		open, end := context.WithCancel(context.Background())
		DeferCleanup(end)
		its, err := injector.NewProxy(open, cfg)
		Expect(err).NotTo(HaveOccurred())
		opts, asked := askingOn(its, g.group)
		c := started(ctx, on(cache.With(optionalKinds), its), opts)
		read := func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "alice"}, g.object("", ""))
		}
		Expect(meta.IsNoMatchError(read())).To(BeTrue())
		Eventually(quietFor(asked)).WithTimeout(2*patience).Should(BeZero(), "from now on only a notice leads to a look")
		telling := []string{"customresourcedefinitions", "apiservices"}
		cut := func() {
			GinkgoHelper()
			for _, resource := range telling {
				fault, err := injector.Inject(faults.Rule{Verb: "watch", Resource: resource}, faults.Cut(0))
				Expect(err).NotTo(HaveOccurred())
				fault.End()
			}
		}

		By("refusing the lists and watches that follow, until it is there")
		var refused []*faults.Fault
		for _, resource := range telling {
			fault, err := injector.Inject(faults.Rule{Resource: resource}, faults.Respond(apierrors.NewInternalError(errors.New("refused"))))
			Expect(err).NotTo(HaveOccurred())
			refused = append(refused, fault)
		}
		cut()
		for _, fault := range refused {
			Expect(fault.Wait(ctx, 1)).To(Succeed())
		}
		g.come(ctx, apiextensionsv1.NamespaceScoped)
		g.send(ctx, namespace, "alice")
		Expect(meta.IsNoMatchError(read())).To(BeTrue(), "nobody has told")
		for _, fault := range refused {
			fault.End()
		}
		Eventually(read).WithTimeout(3 * patience).Should(Succeed())

		By("cutting them once")
		g.leave(ctx)
		Eventually(func() bool { return meta.IsNoMatchError(read()) }).Should(BeTrue())
		cut()
		g.come(ctx, apiextensionsv1.NamespaceScoped)
		g.send(ctx, namespace, "alice")
		Eventually(read).WithTimeout(3 * patience).Should(Succeed())
		g.leave(ctx)
	})
})

var _ = Describe("Discovery of an optional kind", func() {
	It("is asked at most four times after its CRD was deleted", func(ctx SpecContext) {
		namespace, g := newNamespace(ctx), newGuest()
		var asked atomic.Int64 // as the server sees it
		opts := discoveryCounted(g.group, &asked)
		c := started(ctx, cache.With(optionalKinds), opts)
		read := func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "alice"}, g.object("", ""))
		}
		Expect(meta.IsNoMatchError(read())).To(BeTrue())
		Eventually(quietFor(&asked)).WithTimeout(3 * patience).Should(BeZero())
		g.come(ctx, apiextensionsv1.NamespaceScoped)
		g.send(ctx, namespace, "alice")
		Eventually(read).Should(Succeed())

		asked.Store(0) // though what was asked for after the creation may not be over
		g.leave(ctx)
		Eventually(func() bool { return meta.IsNoMatchError(read()) }).Should(BeTrue())
		time.Sleep(11 * time.Second) // what is asked for after an event is asked for within ten
		Expect(asked.Load()).To(And(BeNumerically(">=", 1), BeNumerically("<=", 4)))
		AddReportEntry("questions after the deletion of a CRD", asked.Load())
	})
})

// discoveryCounted returns options whose questions for a version of a group are counted.
func discoveryCounted(group string, asked *atomic.Int64) (opts cache.Options) {
	GinkgoHelper()
	transport, err := rest.TransportFor(cfg)
	Expect(err).NotTo(HaveOccurred())
	opts.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, group+"/v1") {
			asked.Add(1)
		}
		return transport.RoundTrip(r)
	})}
	return opts
}
