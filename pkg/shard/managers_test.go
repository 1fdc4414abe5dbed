// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/internal/specs"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
	"github.com/tarn-dev/tarn/pkg/shard"
)

const tenantLabel = "example.com/tenant"

// tenants sees which replica reconciles what. The label of an object does not change while it is reconciled.
type tenants struct {
	mu   sync.Mutex // guards busy
	busy map[string]string
}

// reconciler writes the name of a replica into ConfigMaps.
func (t *tenants) reconciler(c crclient.Client, member string) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		defer GinkgoRecover()
		t.mu.Lock()
		other := t.busy[req.Name]
		t.busy[req.Name] = member
		t.mu.Unlock()
		Expect(other).To(BeEmpty(), "%s reconciles %s as well as %s", other, req, member)
		defer func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.busy, req.Name)
		}()
		object := &corev1.ConfigMap{}
		if err := c.Get(ctx, req.NamespacedName, object); err != nil || object.Data["replica"] == member {
			return reconcile.Result{}, crclient.IgnoreNotFound(err)
		}
		patch := fmt.Appendf(nil, `{"data":{"replica":%q}}`, member)
		return reconcile.Result{}, c.Patch(ctx, object, crclient.RawPatch(crclient.Merge.Type(), patch))
	})
}

// start starts the manager of a replica. Stop returns when it has ended.
func (t *tenants) start(ctx context.Context, namespace, member string) (ring *shard.Ring, stop func()) {
	GinkgoHelper()
	ring = newRing(namespace, member, "metadata.labels['"+tenantLabel+"']")
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache: cache.With(cache.Tuning{NoMetrics: true, ByObject: map[crclient.Object]cache.TuningByObject{
			&corev1.ConfigMap{}: {Whole: []crclient.ListOptions{{FieldSelector: ring.Selector()}}},
		}}),
		Cache:     cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		NewClient: client.New,
		Metrics:   metricsserver.Options{BindAddress: "0"},
		Logger:    GinkgoLogr,
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		WatchesRawSource(ring.Source(mgr.GetClient(), &corev1.ConfigMapList{})).
		WithOptions(controller.Options{NeedLeaderElection: ptr.To(false), SkipNameValidation: ptr.To(true)}).
		Complete(ring.ReconcilerBy(t.reconciler(mgr.GetClient(), member), mgr.GetClient(), &corev1.ConfigMap{}))).To(Succeed())
	Expect(mgr.Add(ring)).To(Succeed())
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		Eventually(ended).Should(Receive(Succeed()))
	})
	DeferCleanup(stop)
	return ring, stop
}

var _ = Describe("Managers whose ring goes by a label", func() {
	It("reconcile the objects of a tenant in one replica", func(ctx SpecContext) {
		namespace, life, all := specs.Namespace(ctx, api, "tenants-"), context.WithoutCancel(ctx), &tenants{busy: map[string]string{}}
		for i := range 30 {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("object-%d", i), Labels: map[string]string{tenantLabel: fmt.Sprintf("tenant-%d", i%10)},
			}}
			Expect(api.Create(ctx, object)).To(Succeed())
		}
		a, _ := all.start(life, namespace, "a")
		// reconciled expects that the owner of each object has written its name, and returns an object of each replica.
		reconciled := func(members int) (of map[string]*corev1.ConfigMap) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				g.Expect(a.Members()).To(HaveLen(members))
				list := &corev1.ConfigMapList{}
				g.Expect(api.List(ctx, list, crclient.InNamespace(namespace), crclient.HasLabels{tenantLabel})).To(Succeed())
				of = map[string]*corev1.ConfigMap{}
				for _, object := range list.Items {
					g.Expect(object.Data["replica"]).To(Equal(a.Owner(a.KeyOf(&object))), object.Name)
					of[object.Data["replica"]] = &object
				}
				g.Expect(of).To(HaveLen(members))
			}).Should(Succeed())
			return of
		}
		reconciled(1)
		_, stop := all.start(life, namespace, "b")
		of := reconciled(2)
		mine, theirs := of["a"], of["b"]
		mine.Labels = theirs.Labels
		Expect(api.Update(ctx, mine)).To(Succeed())
		reconciled(2)
		stop()
		reconciled(1)
	})
})
