// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"net/http/httptest"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/inspect"
	"github.com/tarn-dev/tarn/pkg/lease"
)

var _ = Describe("A kind with leases", func() {
	It("says how many leases each informer serves, and which scopes", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		c := started(cache.With(cache.Tuning{NoMetrics: true}), cfg, cache.Options{})
		watched(ctx, c, &corev1.Secret{})
		l := look(c, inspect.Options{})
		Expect(l.json("/api/v1/kinds/core/v1/Secret/structured")).To(HaveKeyWithValue("leaseList", BeEmpty()))
		acquire := func(scope lease.Scope) *lease.Lease {
			GinkgoHelper()
			held, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, scope)
			Expect(err).NotTo(HaveOccurred())
			return held
		}
		port, err := labels.Parse("side=port")
		Expect(err).NotTo(HaveOccurred())
		name := lease.Scope{Namespace: namespace, Name: "one"}
		first := acquire(name)
		acquire(lease.Scope{Namespace: namespace})
		second := acquire(name) // the oldest informer that covers it serves it
		acquire(lease.Scope{Namespace: namespace, Labels: port})

		inNamespace := `namespace "` + namespace + `"`
		one := inNamespace + ` and the field selector "metadata.name=one"`
		served := func(scope, informer string, leases float64) OmegaMatcher {
			return Equal(tree{"scope": scope, "informer": informer, "leases": leases})
		}
		detail := l.json(configMaps)
		Expect(detail).To(And(HaveKeyWithValue("leases", 4.0), HaveKeyWithValue("scopes", 2.0)))
		Expect(detail["leaseList"]).To(HaveExactElements(
			served(one, one, 2), served(inNamespace, inNamespace, 1), served(inNamespace+` and the label selector "side=port"`, inNamespace, 1)))
		Expect(detail["allScopes"]).To(ConsistOf(
			And(HaveKeyWithValue("leases", 2.0), Not(HaveKey("selects"))),
			And(HaveKeyWithValue("leases", 2.0), HaveKeyWithValue("selects", `the field selector "metadata.name=one"`)),
		))
		Expect(l.informer("ConfigMap", "structured")).To(HaveKeyWithValue("leases", 4.0))
		Expect(l.informer("Secret", "structured")).NotTo(HaveKey("leases"))

		Expect(first.Release()).To(Succeed())
		Expect(second.Release()).To(Succeed())
		Expect(l.json(configMaps)["leaseList"]).To(HaveLen(2))
		Expect(l.informer("ConfigMap", "structured")).To(And(HaveKeyWithValue("leases", 2.0), HaveKeyWithValue("scopes", 2.0)), "the idle time is not over")
	})

	It("has a table of them on its page", func(ctx SpecContext) {
		b := openBrowser()
		namespace := newNamespace(ctx)
		c := started(cache.With(cache.Tuning{NoMetrics: true}), cfg, cache.Options{})
		for _, scope := range []lease.Scope{{Namespace: namespace}, {Namespace: namespace, Name: "one"}, {Name: "other"}} {
			_, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, scope)
			Expect(err).NotTo(HaveOccurred())
		}
		page := httptest.NewServer(look(c, inspect.Options{}).handler)
		DeferCleanup(page.Close)
		b.looks(1440, 900, "light")
		b.run(chromedp.Navigate(page.URL+"#/"), chromedp.WaitVisible("tbody"))
		Eventually(func() string { return b.text("tbody") }).Should(And(ContainSubstring("2 scopes"), ContainSubstring("3 leases")))
		leases := `section[aria-label="Leases"]`
		b.run(chromedp.Navigate(page.URL+"#/kinds/core/v1/ConfigMap/structured"), chromedp.WaitVisible(leases))
		Expect(b.text(leases)).To(And(ContainSubstring(`metadata.name=one`), ContainSubstring("the scope alone"), ContainSubstring("The oldest informer")))
		b.run(chromedp.Click(`details[data-key="Namespaces"] summary`))
		Eventually(func() string { return b.text(`details[data-key="Namespaces"]`) }).Should(ContainSubstring(`metadata.name=other`))
		b.picture("leases")
		Expect(b.said()).To(BeEmpty())
	}, SpecTimeout(10*patience))

	It("counts those that the informer of the configuration serves", func(ctx SpecContext) {
		c := started(cache.With(cache.Tuning{NoMetrics: true}), cfg, cache.Options{})
		watched(ctx, c, &corev1.ConfigMap{})
		held, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: "default", Name: "one"})
		Expect(err).NotTo(HaveOccurred())
		l := look(c, inspect.Options{})
		Expect(l.json(configMaps)["leaseList"]).To(ConsistOf(HaveKeyWithValue("informer", "all")))
		Expect(held.Release()).To(Succeed())
		Expect(l.json(configMaps)).To(And(HaveKeyWithValue("leaseList", BeEmpty()), Not(HaveKey("leases"))))
	})
})

// copier is a reconciler that reads the ConfigMap whose name its request has. The request "again" is to be reconciled again.
type copier struct {
	refs *lease.References[string]
	in   string
}

// Reconcile implements reconcile.TypedReconciler.
func (c *copier) Reconcile(ctx context.Context, request string) (reconcile.Result, error) {
	result := reconcile.Result{}
	if request == "again" {
		result.RequeueAfter = 1
	}
	return result, client.IgnoreNotFound(c.refs.Get(ctx, client.ObjectKey{Namespace: c.in, Name: request}, &corev1.ConfigMap{}))
}

var _ = Describe("Controllers with references", func() {
	var (
		namespace string
		l         looking
		queue     workqueue.TypedRateLimitingInterface[string]
		reconcile func(request string)
		handle    func(request string) // has a handler enqueue it
		stop      func()
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		c := started(cache.With(cache.Tuning{NoMetrics: true}), cfg, cache.Options{})
		l = look(c, inspect.Options{})
		Expect(l.json("/api/v1/controllers")).To(HaveKeyWithValue("controllers", BeEmpty()))
		refs, err := lease.NewReferences[string](c)
		Expect(err).NotTo(HaveOccurred())
		reconciler := refs.Reconciler(&copier{refs, namespace})
		queue = priorityqueue.New[string](namespace)
		DeferCleanup(queue.ShutDown)
		running, cancel := context.WithCancel(context.Background())
		DeferCleanup(cancel)
		stop = cancel
		Expect(refs.Source().Start(running, queue)).To(Succeed())
		handle = func(request string) {
			refs.Handler(handler.TypedFuncs[client.Object, string]{DeleteFunc: func(_ context.Context, _ event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[string]) {
				queue.Add(request)
			}}).Delete(running, event.DeleteEvent{Object: configMap(namespace, "gone", nil)}, queue)
		}
		reconcile = func(request string) {
			GinkgoHelper()
			_, err := reconciler.Reconcile(running, request)
			Expect(err).NotTo(HaveOccurred())
		}
	})
	requests := func() []any {
		GinkgoHelper()
		controllers := l.json("/api/v1/controllers")["controllers"]
		Expect(controllers).To(ConsistOf(HaveKeyWithValue("reconciler", "*inspect_test.copier")))
		return controllers.([]any)[0].(tree)["requests"].([]any)
	}

	It("say why their newest requests were reconciled, from the first look on", func(ctx SpecContext) {
		reconcile("before")
		Expect(requests()).To(BeEmpty(), "nobody has looked")
		reconcile("one")
		create(ctx, configMap(namespace, "one", nil))
		Eventually(queue.Len).Should(Equal(1))
		reconcile("one")
		Expect(requests()).To(HaveExactElements(
			And(HaveKeyWithValue("request", "one"), HaveKey("at"), HaveKeyWithValue("wakeUps", ConsistOf(And(
				HaveKeyWithValue("kind", "ConfigMap"), HaveKeyWithValue("namespace", namespace), HaveKeyWithValue("name", "one"), HaveKeyWithValue("change", "Added"),
				HaveKeyWithValue("scope", ContainSubstring("metadata.name=one")),
			)))),
			And(HaveKeyWithValue("request", "one"), HaveKeyWithValue("wakeUps", BeEmpty())),
		))
		handle("again")
		reconcile("again")
		reconcile("again")
		Expect(requests()[:2]).To(HaveExactElements(
			HaveKeyWithValue("wakeUps", ConsistOf(And(HaveKeyWithValue("change", "Requeued"), HaveKeyWithValue("kind", ""), Not(HaveKey("scope")), Not(HaveKey("handler"))))),
			HaveKeyWithValue("wakeUps", ConsistOf(And(
				HaveKeyWithValue("kind", "ConfigMap"), HaveKeyWithValue("name", "gone"), HaveKeyWithValue("change", "Deleted"),
				HaveKeyWithValue("handler", HavePrefix("inspect/leases_test.go:")), Not(HaveKey("scope")),
			))),
		))
		for range 60 {
			reconcile("one")
		}
		Expect(requests()).To(HaveLen(50), "the newest")
		stop()
		Eventually(func() any { return l.json("/api/v1/controllers")["controllers"] }).Should(BeEmpty())
	})

	It("are on the page", func(ctx SpecContext) {
		b := openBrowser()
		page := httptest.NewServer(l.handler)
		DeferCleanup(page.Close)
		b.looks(1440, 900, "light")
		controllers := `section[aria-label="Why were they reconciled?"]`
		b.run(chromedp.Navigate(page.URL+"#/"), chromedp.WaitVisible(controllers), chromedp.Click(controllers+" summary"))
		reconcile("one")
		create(ctx, configMap(namespace, "one", nil))
		Eventually(queue.Len).Should(Equal(1))
		reconcile("one")
		handle("again")
		reconcile("again")
		reconcile("again")
		Eventually(func() string { return b.text(controllers) }).WithTimeout(patience).Should(And(
			ContainSubstring("inspect_test.copier"), ContainSubstring("ConfigMap "+namespace+"/one added"), ContainSubstring("no reference"),
			ContainSubstring("ConfigMap "+namespace+"/gone deleted"), ContainSubstring(", by inspect/leases_test.go:"), MatchRegexp(`(?m)^\s*requeued`)))
		b.picture("controllers")
		Expect(b.said()).To(BeEmpty())
	}, SpecTimeout(10*patience))
})
