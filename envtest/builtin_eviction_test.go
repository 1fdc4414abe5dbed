// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest"
)

// runningPod creates a Pod on a node, in a phase, healthy or not.
func runningPod(ctx context.Context, phase corev1.PodPhase, healthy corev1.ConditionStatus) (typedcorev1.PodInterface, *corev1.Pod) {
	GinkgoHelper()
	pods, p := createPod(ctx, func(p *corev1.Pod) { p.Spec.NodeName = "node" })
	p.Status.Phase = phase
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: healthy}}
	p, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return pods, p
}

// guard creates a disruption budget for every Pod of a namespace, with a status of its own.
func guard(ctx context.Context, kube kubernetes.Interface, namespace string, change func(*policyv1.PodDisruptionBudget)) {
	GinkgoHelper()
	budgets := kube.PolicyV1().PodDisruptionBudgets(namespace)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "budget-"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{}},
	}
	change(budget)
	status := budget.Status
	budget, err := budgets.Create(ctx, budget, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	status.ObservedGeneration = budget.Generation
	budget.Status = status
	_, err = budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("an eviction", func() {
	evictionOf := func(options *metav1.DeleteOptions) *policyv1.Eviction {
		return &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "one"}, DeleteOptions: options}
	}
	healthyBudget := func(allowed int32) func(*policyv1.PodDisruptionBudget) {
		return func(budget *policyv1.PodDisruptionBudget) {
			budget.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: 1 + allowed, DesiredHealthy: 1, ExpectedPods: 2}
		}
	}
	disruption := func(p *corev1.Pod) *corev1.PodCondition {
		for i := range p.Status.Conditions {
			if p.Status.Conditions[i].Type == corev1.DisruptionTarget {
				return &p.Status.Conditions[i]
			}
		}
		return nil
	}

	It("tells the Pod why it goes, and lets it go gracefully", func(ctx SpecContext) {
		pods, p := runningPod(ctx, corev1.PodRunning, corev1.ConditionTrue)
		w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: p.ResourceVersion})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		Expect(pods.EvictV1(ctx, evictionOf(nil))).To(Succeed())

		told := next(ctx, w)
		Expect(told.Type).To(Equal(watch.Modified))
		Expect(told.Object.(*corev1.Pod).DeletionTimestamp).To(BeNil())
		condition := disruption(told.Object.(*corev1.Pod))
		Expect(condition).NotTo(BeNil())
		Expect(condition.Status).To(Equal(corev1.ConditionTrue))
		Expect(condition.Reason).To(Equal("EvictionByEvictionAPI"))
		Expect(condition.Message).To(Equal("Eviction API: evicting"))
		Expect(condition.LastTransitionTime.IsZero()).To(BeFalse())
		going := next(ctx, w).Object.(*corev1.Pod)
		Expect(going.DeletionTimestamp).NotTo(BeNil())
		Expect(disruption(going)).NotTo(BeNil())
		Expect(going.Generation).To(Equal(p.Generation + 1))

		By("doing it again")
		Expect(pods.EvictV1(ctx, evictionOf(&metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))).To(Succeed())
		_, err = pods.Get(ctx, "one", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("is taken in policy/v1beta1 too", func(ctx SpecContext) {
		pods, p := runningPod(ctx, corev1.PodRunning, corev1.ConditionTrue)
		guard(ctx, target.kube, p.Namespace, healthyBudget(0))
		eviction := &policyv1beta1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
		err := pods.EvictV1beta1(ctx, eviction)
		Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "%v", err)
		Expect(target.kube.PolicyV1().PodDisruptionBudgets(p.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
		eviction.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To[types.UID]("other")}}
		Eventually(func() bool { return apierrors.IsConflict(pods.EvictV1beta1(ctx, eviction)) }).Should(BeTrue())
		eviction.DeleteOptions = nil
		Eventually(func() error { return pods.EvictV1beta1(ctx, eviction) }).Should(Succeed())
		going, err := pods.Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(going.DeletionTimestamp).NotTo(BeNil())
	}, SpecTimeout(patience))

	It("does nothing in a dry run", func(ctx SpecContext) {
		pods, p := runningPod(ctx, corev1.PodRunning, corev1.ConditionTrue)
		guard(ctx, target.kube, p.Namespace, healthyBudget(1))
		Expect(pods.EvictV1(ctx, evictionOf(&metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))).To(Succeed())
		Expect(pods.Get(ctx, "one", metav1.GetOptions{})).To(Equal(p))
		budgets, err := target.kube.PolicyV1().PodDisruptionBudgets(p.Namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(budgets.Items[0].Status.DisruptionsAllowed).To(Equal(int32(1)))
	}, SpecTimeout(patience))

	It("is for the Pod that is meant", func(ctx SpecContext) {
		pods, p := runningPod(ctx, corev1.PodRunning, corev1.ConditionTrue)
		for _, other := range []*metav1.Preconditions{{UID: ptr.To[types.UID]("other")}, {ResourceVersion: ptr.To("1")}} {
			err := pods.EvictV1(ctx, evictionOf(&metav1.DeleteOptions{Preconditions: other}))
			Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		}
		Expect(pods.Get(ctx, "one", metav1.GetOptions{})).To(Equal(p), "it is not told either")
		Expect(pods.EvictV1(ctx, evictionOf(&metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion},
		}))).To(Succeed())
		going, err := pods.Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(going.DeletionTimestamp).NotTo(BeNil())
	}, SpecTimeout(patience))

	It("takes the last disruption that a budget has", func(ctx SpecContext) {
		pods, p := runningPod(ctx, corev1.PodRunning, corev1.ConditionTrue)
		guard(ctx, target.kube, p.Namespace, healthyBudget(1))
		Expect(pods.EvictV1(ctx, evictionOf(nil))).To(Succeed())
		budgets, err := target.kube.PolicyV1().PodDisruptionBudgets(p.Namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		status := budgets.Items[0].Status
		Expect(status.DisruptionsAllowed).To(BeZero())
		Expect(status.DisruptedPods).To(HaveKey("one"))
		Expect(status.Conditions).To(ConsistOf(And(
			HaveField("Type", policyv1.DisruptionAllowedCondition), HaveField("Status", metav1.ConditionFalse),
			HaveField("Reason", policyv1.InsufficientPodsReason), HaveField("ObservedGeneration", status.ObservedGeneration),
		)))
	}, SpecTimeout(patience))

	for _, one := range []struct {
		what    string
		phase   corev1.PodPhase
		healthy corev1.ConditionStatus
		budgets []func(*policyv1.PodDisruptionBudget)
		refused string // what the error says, "" for none
	}{
		{"a pending Pod", corev1.PodPending, corev1.ConditionFalse, []func(*policyv1.PodDisruptionBudget){healthyBudget(0)}, ""},
		{"a Pod that is done", corev1.PodSucceeded, corev1.ConditionFalse, []func(*policyv1.PodDisruptionBudget){healthyBudget(0), healthyBudget(0)}, ""},
		{"a healthy Pod", corev1.PodRunning, corev1.ConditionTrue, []func(*policyv1.PodDisruptionBudget){healthyBudget(0)}, "needs 1 healthy pods and has 1 currently"},
		{"a Pod of two budgets", corev1.PodRunning, corev1.ConditionTrue, []func(*policyv1.PodDisruptionBudget){healthyBudget(1), healthyBudget(1)}, "more than one PodDisruptionBudget"},
		{"an unhealthy Pod among enough healthy ones", corev1.PodRunning, corev1.ConditionFalse, []func(*policyv1.PodDisruptionBudget){healthyBudget(0)}, ""},
		{"an unhealthy Pod among too few", corev1.PodRunning, corev1.ConditionFalse, []func(*policyv1.PodDisruptionBudget){func(budget *policyv1.PodDisruptionBudget) {
			budget.Status = policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 2, CurrentHealthy: 1}
		}}, "needs 2 healthy pods and has 1 currently"},
		{"an unhealthy Pod of a lenient budget", corev1.PodRunning, corev1.ConditionFalse, []func(*policyv1.PodDisruptionBudget){func(budget *policyv1.PodDisruptionBudget) {
			budget.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
			budget.Status = policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 2, CurrentHealthy: 1}
		}}, ""},
		{"a Pod whose budget is out of order", corev1.PodRunning, corev1.ConditionTrue, []func(*policyv1.PodDisruptionBudget){func(budget *policyv1.PodDisruptionBudget) {
			budget.Status = policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 1, CurrentHealthy: 2, Conditions: []metav1.Condition{{
				Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "no scale",
				LastTransitionTime: metav1.Now(),
			}}}
		}}, "does not allow evicting pods currently because it failed sync: no scale"},
		{"a Pod whose budget says no", corev1.PodRunning, corev1.ConditionTrue, []func(*policyv1.PodDisruptionBudget){func(budget *policyv1.PodDisruptionBudget) {
			budget.Status = policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 1, CurrentHealthy: 2}
		}}, "does not allow evicting pods currently"},
	} {
		verb := "is granted: "
		if one.refused != "" {
			verb = "is refused: "
		}
		It(verb+one.what, func(ctx SpecContext) {
			pods, p := runningPod(ctx, one.phase, one.healthy)
			for _, change := range one.budgets {
				guard(ctx, target.kube, p.Namespace, change)
			}
			err := pods.EvictV1(ctx, evictionOf(nil))
			if one.refused == "" {
				Expect(err).NotTo(HaveOccurred())
				return
			}
			Expect(err).To(HaveOccurred())
			said := err.Error()
			if details := err.(apierrors.APIStatus).Status().Details; details != nil {
				for _, cause := range details.Causes {
					said += " " + cause.Message
				}
			}
			Expect(said).To(ContainSubstring(one.refused))
			Expect(pods.Get(ctx, "one", metav1.GetOptions{})).To(Equal(p))
		}, SpecTimeout(patience))
	}
})

// meddler is a store that changes an object right after it was read once, as if another client did.
type meddler struct {
	storage.Interface
	meddle atomic.Pointer[func()]
}

// Get implements storage.Interface.
func (m *meddler) Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	err := m.Interface.Get(ctx, key, opts, into)
	if f := m.meddle.Swap(nil); f != nil {
		(*f)()
	}
	return err
}

var _ = Describe("an eviction of a Pod that changes meanwhile", Ordered, func() {
	var kube kubernetes.Interface
	var stored *meddler
	BeforeAll(func() {
		onlyOurs()
		env := envtest.StartWith(GinkgoTB(), envtest.Options{
			StorageDecorator: decorated(envtest.Undecorated, func(m storeMaker) (storage.Interface, factory.DestroyFunc, error) {
				store, destroy, err := m.make(m.keyFunc)
				if m.resource == corev1.Resource("pods") {
					stored = &meddler{Interface: store}
					store = stored
				}
				return store, destroy, err
			}),
		})
		kube = kubernetes.NewForConfigOrDie(env.Config())
	})
	for _, one := range []struct {
		what    string
		phase   corev1.PodPhase
		budget  func(*policyv1.PodDisruptionBudget) // nil for none
		version bool                                // the client names the version
		fails   func(error) bool
	}{
		{"begins anew when the Pod serves nobody", corev1.PodPending, nil, false, nil},
		{"is a conflict when it is for a version", corev1.PodPending, nil, true, apierrors.IsConflict},
		{"is put off when no budget was asked because the Pod was not healthy", corev1.PodRunning, func(budget *policyv1.PodDisruptionBudget) {
			budget.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
		}, false, apierrors.IsTooManyRequests},
		{"succeeds when a budget was asked", corev1.PodRunning, func(budget *policyv1.PodDisruptionBudget) {
			budget.Status.DisruptionsAllowed = 1
		}, false, nil},
	} {
		It(one.what, func(ctx SpecContext) {
			namespace, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			pods := kube.CoreV1().Pods(namespace.Name)
			p := pod("one")
			p.Spec.NodeName = "node"
			p, err = pods.Create(ctx, p, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			p.Status.Phase = one.phase
			p, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			if one.budget != nil {
				guard(ctx, kube, namespace.Name, one.budget)
			}
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "one"}, DeleteOptions: &metav1.DeleteOptions{}}
			if one.version {
				eviction.DeleteOptions.Preconditions = &metav1.Preconditions{ResourceVersion: &p.ResourceVersion}
			}
			stored.meddle.Store(ptr.To(func() {
				defer GinkgoRecover()
				_, err := pods.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"annotations":{"changed":"yes"}}}`), metav1.PatchOptions{})
				Expect(err).NotTo(HaveOccurred())
			}))
			err = kube.PolicyV1().RESTClient().Post().AbsPath("/api/v1/namespaces", namespace.Name, "pods/one/eviction").
				MaxRetries(0).Body(eviction).Do(ctx).Error()
			now, getErr := pods.Get(ctx, "one", metav1.GetOptions{})
			Expect(getErr).NotTo(HaveOccurred())
			Expect(now.Annotations).To(HaveKey("changed"))
			if one.fails == nil {
				Expect(err).NotTo(HaveOccurred())
				Expect(now.DeletionTimestamp).NotTo(BeNil())
				return
			}
			Expect(one.fails(err)).To(BeTrue(), "%v", err)
			Expect(now.DeletionTimestamp).To(BeNil())
			Expect(now.Status.Conditions).To(BeEmpty(), "it is not told")
		}, SpecTimeout(patience))
	}
})
