// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// budgetResource is where the disruption budgets are.
var budgetResource = schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}

// budgetStore is the store of the disruption budgets.
type budgetStore = *genericregistry.Store

// evictionREST serves pods/eviction: it deletes a Pod if the disruption budget that covers it allows that.
type evictionREST struct {
	pods    *genericregistry.Store
	budgets func() budgetStore
}

var (
	_ rest.NamedCreater             = evictionREST{}
	_ rest.GroupVersionKindProvider = evictionREST{}
)

// GroupVersionKind is policy/v1, although the path is one of the core group.
func (r evictionREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("Eviction")
}

func (r evictionREST) New() runtime.Object { return &policyv1.Eviction{} }

// Destroy does nothing: the main resources own the storages.
func (r evictionREST) Destroy() {}

// Create evicts the Pod. It answers 429 when the budget does not allow it now, and 500 when several budgets cover the Pod.
func (r evictionREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	eviction, ok := obj.(*policyv1.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not an Eviction object: %T", obj))
	}
	if eviction.Name != name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	if validate != nil {
		if err := validate(ctx, eviction.DeepCopy()); err != nil {
			return nil, err
		}
	}
	deletion := eviction.DeleteOptions
	if deletion == nil {
		deletion = &metav1.DeleteOptions{}
	}
	if len(options.DryRun) > 0 {
		deletion.DryRun = options.DryRun
	}
	found, err := r.pods.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod := mustBe[*corev1.Pod](found)
	if err := r.spend(ctx, pod, dryrun.IsDryRun(deletion.DryRun)); err != nil {
		return nil, err
	}
	if _, _, err := r.pods.Delete(ctx, name, rest.ValidateAllObjectFunc, deletion); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// spend takes one disruption from the Pod's budget, if a budget guards it.
func (r evictionREST) spend(ctx context.Context, pod *corev1.Pod, dryRun bool) error {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodUnknown {
		return nil // it serves nobody
	}
	budgets, err := r.covering(ctx, pod)
	if err != nil {
		return err
	}
	switch len(budgets) {
	case 0:
		return nil
	case 1:
	default:
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 500,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}
	}
	if !ready(pod) && unguarded(budgets[0]) {
		return nil
	}
	key, err := r.budgets().KeyFunc(ctx, budgets[0].Name)
	if err != nil {
		return err
	}
	update := func(existing runtime.Object) (runtime.Object, error) {
		budget := mustBe[*policyv1.PodDisruptionBudget](existing)
		return budget, spendOne(budget, pod.Name)
	}
	err = r.budgets().Storage.GuaranteedUpdate(ctx, key, &policyv1.PodDisruptionBudget{}, false, nil, storage.SimpleUpdate(update), dryRun, nil)
	return storeerr.InterpretUpdateError(err, budgetResource, budgets[0].Name)
}

// covering returns the budgets whose selectors match the Pod.
func (r evictionREST) covering(ctx context.Context, pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	list, err := r.budgets().List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	budgets := mustBe[*policyv1.PodDisruptionBudgetList](list)
	var covering []*policyv1.PodDisruptionBudget
	for i := range budgets.Items {
		budget := &budgets.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			continue // validation lets none in
		}
		if budget.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			covering = append(covering, budget)
		}
	}
	return covering, nil
}

// ready reports whether the Pod counts as healthy.
func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// unguarded reports whether unhealthy Pods may go without spending a disruption.
func unguarded(budget *policyv1.PodDisruptionBudget) bool {
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.DesiredHealthy > 0 && budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy
}

// spendOne takes one disruption and notes for whom, or returns the 429 that tells the client to try again.
func spendOne(budget *policyv1.PodDisruptionBudget, pod string) error {
	status := &budget.Status
	if status.ObservedGeneration < budget.Generation {
		return tooManyDisruptions(budget, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget.Name))
	}
	if status.DisruptionsAllowed <= 0 {
		return tooManyDisruptions(budget, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			budget.Name, status.DesiredHealthy, status.CurrentHealthy))
	}
	status.DisruptionsAllowed--
	if status.DisruptedPods == nil {
		status.DisruptedPods = map[string]metav1.Time{}
	}
	status.DisruptedPods[pod] = metav1.Now()
	return nil
}

// tooManyDisruptions is the refusal, with its cause in the details.
func tooManyDisruptions(budget *policyv1.PodDisruptionBudget, message string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Name = budget.Name
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	return err
}
