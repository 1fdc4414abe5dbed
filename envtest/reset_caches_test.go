// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
)

// roleOf makes a ClusterRole for each ConfigMap with the label, which cannot own it, and tells of the error of each attempt.
type roleOf struct {
	client.Client
	attempts chan error
	deciding *sync.RWMutex // read-locked from what it reads until what it writes
}

func (r roleOf) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.deciding.RLock()
	defer r.deciding.RUnlock()
	var decides corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &decides); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if decides.Labels["owner"] == "" {
		return reconcile.Result{}, nil
	}
	err := r.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role-of-" + req.Name, Labels: map[string]string{"of": req.Name}}})
	if apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, nil
	}
	r.attempts <- err
	return reconcile.Result{}, err
}

// begin runs a manager with the controller, until the spec ends.
func (r roleOf) begin(ctx context.Context, manager ctrl.Manager) {
	GinkgoHelper()
	namesOne := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, role client.Object) []reconcile.Request {
		if of := role.GetLabels()["of"]; of != "" {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "default", Name: of}}}
		}
		return nil
	})
	Expect(ctrl.NewControllerManagedBy(manager).Named("roles").For(&corev1.ConfigMap{}).Watches(&rbacv1.ClusterRole{}, namesOne).Complete(r)).To(Succeed())
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	DeferCleanup(func() {
		stop()
		Expect(<-ended).To(Succeed())
	})
	Expect(manager.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
}

// awaited begins a manager with the controller, for whose cache of ConfigMaps Reset waits until end is called.
func awaited(ctx SpecContext, s *shared) (manager ctrl.Manager, controller roleOf, end func()) {
	GinkgoHelper()
	manager, err := ctrl.NewManager(s.config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	Expect(err).NotTo(HaveOccurred())
	controller = roleOf{manager.GetClient(), make(chan error, 1000), &sync.RWMutex{}}
	controller.begin(ctx, manager)
	end, err = s.env.AwaitCache(manager.GetClient(), &corev1.ConfigMap{})
	Expect(err).NotTo(HaveOccurred())
	return manager, controller, end
}

// askedClient tells of each Get.
type askedClient struct {
	client.Client
	asked chan struct{}
}

func (c askedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

var _ = Describe("a cache that Reset awaits", func() {
	It("keeps the slate clean of what no owner reference tells of", func(ctx SpecContext) {
		injector := faults.New()
		s := newShared(ctx, envtest.Options{Faults: injector})
		manager, controller, end := awaited(ctx, s)
		roles := func() []rbacv1.ClusterRole {
			list, err := s.kube.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{LabelSelector: "of=owner"})
			Expect(err).NotTo(HaveOccurred())
			return list.Items
		}
		for range 3 {
			s.owner(ctx)
			Eventually(controller.attempts).WithContext(ctx).Should(Receive(BeNil()))
			hold, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "configmaps"})
			Expect(err).NotTo(HaveOccurred())
			reset := make(chan error, 1)
			go func() { reset <- s.env.Reset(ctx) }()
			var refused error
			Eventually(controller.attempts).WithContext(ctx).Should(Receive(&refused))
			Expect(apierrors.IsConflict(refused)).To(BeTrue(), "the controller sees the role go, and not the ConfigMap: %v", refused)
			Expect(refused).To(MatchError(ContainSubstring("is being reset or restored")))
			Expect(reset).NotTo(Receive())
			controller.deciding.Lock() // nobody has read, and is yet to write
			hold.End()
			Eventually(reset).WithContext(ctx).Should(Receive(BeNil()))
			controller.deciding.Unlock()
			Expect(manager.GetClient().Get(ctx, client.ObjectKey{Namespace: "default", Name: "owner"}, &corev1.ConfigMap{})).To(MatchError(apierrors.IsNotFound, "gone"))
			Expect(roles()).To(BeEmpty())
			for len(controller.attempts) > 0 {
				Expect(<-controller.attempts).NotTo(Succeed())
			}
		}
		Expect(roles()).To(BeEmpty())
		end()
		s.owner(ctx)
		Eventually(controller.attempts).WithContext(ctx).Should(Receive(BeNil()))
		hold, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "configmaps"})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.env.Reset(ctx)).To(Succeed())
		Eventually(controller.attempts).WithContext(ctx).Should(Receive(BeNil()), "nobody waits for the cache, and the role is made again")
		hold.End()
	}, SpecTimeout(patience))

	It("may be the cause that Reset does not end", func(ctx SpecContext) {
		injector := faults.New()
		s := newShared(ctx, envtest.Options{Faults: injector})
		manager, controller, end := awaited(ctx, s)
		end()
		asked := askedClient{manager.GetClient(), make(chan struct{}, 1)}
		end, err := s.env.AwaitCache(asked, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		s.owner(ctx)
		Eventually(controller.attempts).WithContext(ctx).Should(Receive(BeNil()))
		hold, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "configmaps"})
		Expect(err).NotTo(HaveOccurred())
		short, cancel := context.WithCancel(ctx)
		reset := make(chan error, 1)
		go func() { reset <- s.env.Reset(short) }()
		Expect(hold.Wait(ctx, 1)).To(Succeed())
		Eventually(controller.attempts).WithContext(ctx).Should(Receive(Not(BeNil())))
		Eventually(asked.asked).WithContext(ctx).Should(Receive(), "Reset waits for the cache")
		cancel()
		var why error
		Eventually(reset).WithContext(ctx).Should(Receive(&why))
		Expect(why).To(And(MatchError(context.Canceled), MatchError(ContainSubstring("a cache given to AwaitCache shows *v1.ConfigMap default/owner as it was before"))))
		hold.End()
		end()
	}, SpecTimeout(patience))
})
