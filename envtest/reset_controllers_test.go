// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
)

// secretOf makes a Secret for each ConfigMap of the default namespace that has the label, and tells of the error of each attempt.
// An attempt that finds the Secret there is not told: its cache is only behind, and it may come at any time after the one before it.
type secretOf struct {
	client.Client
	attempts chan error
}

func (s secretOf) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var owner corev1.ConfigMap
	if err := s.Get(ctx, req.NamespacedName, &owner); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if owner.Namespace != "default" || owner.Labels["owner"] == "" {
		return reconcile.Result{}, nil
	}
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	if err := s.Get(ctx, req.NamespacedName, &secret); !apierrors.IsNotFound(err) {
		return reconcile.Result{}, err
	}
	if err := controllerutil.SetControllerReference(&owner, &secret, s.Scheme()); err != nil {
		return reconcile.Result{}, err
	}
	err := s.Create(ctx, &secret)
	if !apierrors.IsAlreadyExists(err) {
		s.attempts <- err
	}
	return reconcile.Result{}, err
}

var _ = Describe("a clean slate under a running manager", func() {
	It("is not undone by a controller that has not seen it", func(ctx SpecContext) {
		injector := faults.New()
		s := newShared(ctx, envtest.Options{Faults: injector})
		manager, err := ctrl.NewManager(s.config, ctrl.Options{
			Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		})
		Expect(err).NotTo(HaveOccurred())
		controller := secretOf{manager.GetClient(), make(chan error, 1000)}
		Expect(ctrl.NewControllerManagedBy(manager).Named("secrets").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
			Complete(controller)).To(Succeed())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- manager.Start(running) }()
		defer func() {
			stop()
			Expect(<-ended).To(Succeed())
		}()
		Expect(manager.GetCache().WaitForCacheSync(ctx)).To(BeTrue())

		s.owner(ctx)
		Eventually(controller.attempts).WithContext(ctx).Should(Receive(BeNil()))
		snapshot, err := s.env.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		for range 3 {
			hold, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "configmaps"})
			Expect(err).NotTo(HaveOccurred())
			Expect(s.env.Reset(ctx)).To(Succeed())
			var refused error
			Eventually(controller.attempts).WithContext(ctx).Should(Receive(&refused))
			Expect(apierrors.IsConflict(refused)).To(BeTrue(), "the controller sees the Secret go, and not its owner: %v", refused)
			Expect(refused).To(MatchError(ContainSubstring("its owner ConfigMap owner with UID")))
			hold.End()
			Eventually(func(g Gomega) {
				var gone corev1.ConfigMap
				g.Expect(apierrors.IsNotFound(manager.GetClient().Get(ctx, client.ObjectKey{Namespace: "default", Name: "owner"}, &gone))).To(BeTrue())
			}).WithContext(ctx).WithPolling(fast).Should(Succeed())
			Expect(s.secrets(ctx)).To(BeEmpty())

			Expect(s.env.Restore(ctx, snapshot)).To(Succeed())
			Expect(s.secrets(ctx)).To(ConsistOf("owner"))
			Expect(s.kube.CoreV1().Secrets("default").Delete(ctx, "owner", metav1.DeleteOptions{})).To(Succeed())
			Eventually(controller.attempts).WithContext(ctx).Should(Receive(BeNil()), "an owner that is back owns as before")
		}
	}, SpecTimeout(patience))
})

// owner makes the object that a controller of secretOf acts on.
func (s *shared) owner(ctx context.Context) {
	GinkgoHelper()
	cm := configMap("owner", "1")
	cm.Labels = map[string]string{"owner": "yes"}
	_, err := s.kube.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// secrets returns the names of the Secrets in the default namespace.
func (s *shared) secrets(ctx context.Context) []string {
	GinkgoHelper()
	list, err := s.kube.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, secret := range list.Items {
		names = append(names, secret.Name)
	}
	return names
}
