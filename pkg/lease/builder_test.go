// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

var _ = Describe("The controller that the builder makes", func() {
	var (
		namespace string
		mgr       ctrl.Manager
		refs      *lease.References[reconcile.Request]
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		var err error
		mgr, err = ctrl.NewManager(cfg, ctrl.Options{
			NewCache: cache.With(cache.Tuning{NoMetrics: true}), Metrics: metricsserver.Options{BindAddress: "0"},
			Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
			Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		})
		Expect(err).NotTo(HaveOccurred())
		refs, err = lease.NewReferences[reconcile.Request](mgr.GetCache())
		Expect(err).NotTo(HaveOccurred())
	})
	// run runs a controller whose reconciles return what returned has, and refer to the Secret "tls". It returns their wake-ups.
	run := func(builder *ctrl.Builder, returned <-chan func() (reconcile.Result, error)) <-chan []lease.WakeUp {
		GinkgoHelper()
		why := make(chan []lease.WakeUp, 100)
		Expect(builder.Named("builder-" + namespace).WatchesRawSource(refs.Source()).
			Complete(refs.Reconciler(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
				if request.Name != "one" { // what the server creates in each namespace
					return reconcile.Result{}, nil
				}
				defer func() { why <- refs.WakeUps(ctx) }()
				err := client.IgnoreNotFound(refs.Get(ctx, named(namespace, "tls"), &corev1.Secret{}))
				select {
				case f := <-returned:
					return f()
				default:
				}
				return reconcile.Result{}, err
			})))).To(Succeed())
		running, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(running) }()
		DeferCleanup(sync.OnceFunc(func() {
			cancel()
			Eventually(ended).Should(Receive(BeNil()))
		}))
		return why
	}

	It("names what has changed for references, and not for the kind that it is for", func(ctx SpecContext) {
		why := run(ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}), nil)
		one := configMap(namespace, "one", "web")
		create(ctx, one)
		Eventually(why).Should(Receive(BeEmpty()))
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls"}})
		Eventually(why).Should(Receive(ConsistOf(And(HaveField("Object.Name", "tls"), HaveField("Change", "Added")))))
		one.Data["app"] = "db"
		Expect(api.Update(ctx, one)).To(Succeed())
		Eventually(why).Should(Receive(BeEmpty()), "the queue holds the request alone")
	})

	It("names what each of its handlers was told of, and when it asks for a reconcile itself", func(ctx SpecContext) {
		ticks, returned := make(chan event.GenericEvent, 1), make(chan func() (reconcile.Result, error), 1)
		tick := handler.Funcs{GenericFunc: func(_ context.Context, _ event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			queue.Add(reconcile.Request{NamespacedName: named(namespace, "one")})
		}}
		owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &corev1.ConfigMap{}, handler.OnlyControllerOwner())
		_, _, line, _ := runtime.Caller(0)
		byObject, byOwner, byTick := refs.Handler(&handler.EnqueueRequestForObject{}),
			refs.Handler(owner),
			refs.Handler(tick)
		why := run(ctrl.NewControllerManagedBy(mgr).Watches(&corev1.ConfigMap{}, byObject).Watches(&corev1.Secret{}, byOwner).
			WatchesRawSource(source.Channel(ticks, byTick)), returned)
		is := func(kind, name, change string, after int) OmegaMatcher {
			return ConsistOf(And(HaveField("Kind.Kind", kind), HaveField("Object.Name", name), HaveField("Change", change),
				HaveField("Handler", fmt.Sprintf("lease/builder_test.go:%d", line+after)),
				HaveField("Scope", lease.Scope{}), HaveField("At", BeTemporally("~", time.Now(), time.Minute))))
		}
		one := configMap(namespace, "one", "web")
		create(ctx, one)
		Eventually(why).Should(Receive(is("ConfigMap", "one", "Added", 1)))
		one.Data["app"] = "db"
		Expect(api.Update(ctx, one)).To(Succeed())
		Eventually(why).Should(Receive(is("ConfigMap", "one", "Modified", 1)))

		owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owned"}}
		Expect(controllerutil.SetControllerReference(one, owned, mgr.GetScheme())).To(Succeed())
		create(ctx, owned)
		Eventually(why).Should(Receive(is("Secret", "owned", "Added", 2)))
		Expect(api.Delete(ctx, owned)).To(Succeed())
		Eventually(why).Should(Receive(is("Secret", "owned", "Deleted", 2)))

		ticks <- event.GenericEvent{}
		var last []lease.WakeUp
		Eventually(why).Should(Receive(&last))
		Expect(last).To(is("", "", "Generic", 3))
		Expect(last[0].String()).To(MatchRegexp("^Generic at .*, by lease/builder_test.go:[0-9]+$"))

		for change, f := range map[string]func() (reconcile.Result, error){
			"Retried":  func() (reconcile.Result, error) { return reconcile.Result{}, errors.New("failed") },
			"Requeued": func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Millisecond}, nil },
		} {
			returned <- f
			ticks <- event.GenericEvent{Object: one}
			Eventually(why).Should(Receive(is("ConfigMap", "one", "Generic", 3)))
			Eventually(why).Should(Receive(ContainElement(And(HaveField("Change", change), HaveField("Kind.Kind", ""), HaveField("String()", HavePrefix(change+" at "))))))
		}
	})
})
