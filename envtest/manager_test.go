// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var _ = Describe("clients of the ecosystem", func() {
	It("run a manager with leader election and a controller", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		manager, err := ctrl.NewManager(target.config, ctrl.Options{
			LeaderElection: true, LeaderElectionID: "tarn-spec", LeaderElectionNamespace: ns, LeaderElectionReleaseOnCancel: true,
			Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(),
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(ctrl.NewControllerManagedBy(manager).Named("tarn-spec").For(&corev1.ConfigMap{}).Complete(
			reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				var cm corev1.ConfigMap
				if err := manager.GetClient().Get(ctx, req.NamespacedName, &cm); err != nil || cm.Namespace != ns || cm.Labels["seen"] != "" {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				cm = *cm.DeepCopy()
				metav1.SetMetaDataLabel(&cm.ObjectMeta, "seen", "yes")
				return reconcile.Result{}, manager.GetClient().Update(ctx, &cm)
			}))).To(Succeed())

		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- manager.Start(running) }()
		w, err := target.kube.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{LabelSelector: "seen=yes"})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		createConfigMaps(ctx, ns, 1)
		Expect(nameOf(next(ctx, w))).To(Equal("cm-0"))
		var lease coordinationv1.Lease
		Expect(manager.GetAPIReader().Get(ctx, client.ObjectKey{Namespace: ns, Name: "tarn-spec"}, &lease)).To(Succeed())
		Expect(lease.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
		stop()
		Expect(<-ended).To(Succeed())
	}, SpecTimeout(patience))

	It("run client-go's informers", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		createConfigMaps(ctx, ns, 2)
		factory := informers.NewSharedInformerFactoryWithOptions(target.kube, 0, informers.WithNamespace(ns))
		lister := factory.Core().V1().ConfigMaps().Lister()
		added := make(chan string, 10)
		_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { added <- obj.(*corev1.ConfigMap).Name },
		})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		factory.StartWithContext(running)
		Expect(factory.WaitForCacheSyncWithContext(ctx).Err).NotTo(HaveOccurred())
		_, err = lister.ConfigMaps(ns).Get("cm-1")
		Expect(err).NotTo(HaveOccurred())
		_, err = target.kube.CoreV1().ConfigMaps(ns).Create(ctx, configMap("later", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(added).WithContext(ctx).Should(Receive(Equal("later")))
		stop()
		factory.Shutdown()
	}, SpecTimeout(patience))
})
