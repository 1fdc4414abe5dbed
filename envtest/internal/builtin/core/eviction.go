// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// budgetResource is where the disruption budgets are.
var budgetResource = schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}

// budgetStore is the store of the disruption budgets.
type budgetStore = *kind.Store

// evictionAttempts is how often an eviction begins anew because its Pod changes, as in kube-apiserver.
const evictionAttempts = 20

// evictionREST serves pods/eviction: it deletes a Pod if the disruption budget that covers it allows that, and tells it why.
// The rules are those of kube-apiserver's pkg/registry/core/pod/storage/eviction.go.
type evictionREST struct {
	pods    *kind.Store
	status  kind.PartREST // of the Pods
	budgets func() budgetStore
}

var (
	_ rest.NamedCreater             = evictionREST{}
	_ rest.GroupVersionKindProvider = evictionREST{}
	_ rest.GroupVersionAcceptor     = evictionREST{}
)

// AddEvictionConversions lets an eviction be read in policy/v1beta1. Nothing else of that version is served.
func AddEvictionConversions(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(policyv1beta1.SchemeGroupVersion.WithKind("Eviction"), &policyv1beta1.Eviction{})
	return scheme.AddConversionFunc((*policyv1beta1.Eviction)(nil), (*policyv1.Eviction)(nil), func(from, to any, _ conversion.Scope) error {
		in, out := from.(*policyv1beta1.Eviction), to.(*policyv1.Eviction)
		out.ObjectMeta, out.DeleteOptions = in.ObjectMeta, in.DeleteOptions
		return nil
	})
}

// GroupVersionKind is policy/v1, although the path is one of the core group.
func (r evictionREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("Eviction")
}

// AcceptsGroupVersion tells that policy/v1beta1 is read too: client-go's Evict and older kubectls send it.
func (r evictionREST) AcceptsGroupVersion(gv schema.GroupVersion) bool {
	return gv == policyv1.SchemeGroupVersion || gv == policyv1beta1.SchemeGroupVersion
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
	for attempt := 1; ; attempt++ {
		changed, err := r.evict(ctx, name, deletion)
		if err == nil {
			return &metav1.Status{Status: metav1.StatusSuccess}, nil
		}
		if !changed || attempt == evictionAttempts || ctx.Err() != nil {
			return nil, err
		}
	}
}

// evict looks at the Pod and deletes it if it may go. It reports true with an error that tells only of a Pod that changed in
// between.
func (r evictionREST) evict(ctx context.Context, name string, deletion *metav1.DeleteOptions) (bool, error) {
	pod, err := kind.GetOne[*corev1.Pod](ctx, r.pods, name)
	if err != nil {
		return false, err
	}
	asked := versionOf(deletion) != ""
	var unguarded *policyv1.PodDisruptionBudget
	idle := servesNobody(pod)
	if !idle {
		if unguarded, err = r.spend(ctx, pod, dryrun.IsDryRun(deletion.DryRun)); err != nil {
			return false, err
		}
	}
	// A Pod that does not serve, or is not healthy, goes without a budget as long as it stays so.
	if !asked && (unguarded != nil || idle && !finished(pod)) {
		deletion = atVersion(deletion, pod.ResourceVersion)
	}
	err = r.tellAndDelete(ctx, name, deletion)
	if asked || !apierrors.IsConflict(err) {
		return false, err
	}
	if unguarded != nil {
		return false, stillProcessed(unguarded)
	}
	return idle, err
}

// versionOf returns the resourceVersion that a deletion is for, or nothing.
func versionOf(options *metav1.DeleteOptions) string {
	if options.Preconditions == nil || options.Preconditions.ResourceVersion == nil {
		return ""
	}
	return *options.Preconditions.ResourceVersion
}

// atVersion returns a copy of options for one resourceVersion.
func atVersion(options *metav1.DeleteOptions, version string) *metav1.DeleteOptions {
	options = options.DeepCopy()
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	options.Preconditions.ResourceVersion = &version
	return options
}

// tellAndDelete writes the condition DisruptionTarget to the Pod, and deletes it.
func (r evictionREST) tellAndDelete(ctx context.Context, name string, options *metav1.DeleteOptions) error {
	if !dryrun.IsDryRun(options.DryRun) {
		tell := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			pod := kind.MustBe[*corev1.Pod](old.DeepCopyObject())
			if err := checkPreconditions(pod, options.Preconditions); err != nil {
				return nil, err
			}
			setPodCondition(&pod.Status, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
			})
			return pod, nil
		}
		told, _, err := r.status.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, tell),
			rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		if versionOf(options) != "" {
			options = atVersion(options, kind.MustBe[*corev1.Pod](told).ResourceVersion)
		}
	}
	_, _, err := r.pods.Delete(ctx, name, rest.ValidateAllObjectFunc, options)
	return err
}

// checkPreconditions returns a conflict if another Pod is meant.
func checkPreconditions(pod *corev1.Pod, wanted *metav1.Preconditions) error {
	if wanted == nil {
		return nil
	}
	if uid := wanted.UID; uid != nil && *uid != "" && *uid != pod.UID {
		return apierrors.NewConflict(corev1.Resource("Pod"), pod.Name,
			fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *uid, pod.UID))
	}
	if version := wanted.ResourceVersion; version != nil && *version != "" && *version != pod.ResourceVersion {
		return apierrors.NewConflict(corev1.Resource("Pod"), pod.Name,
			fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *version, pod.ResourceVersion))
	}
	return nil
}

// finished reports whether the Pod will never serve again.
func finished(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// servesNobody reports whether no budget is asked for the Pod.
func servesNobody(pod *corev1.Pod) bool {
	return finished(pod) || pod.Status.Phase == corev1.PodPending
}

// spend takes one disruption from the Pod's budget, if a budget guards it. It returns the budget of an unhealthy Pod that may
// go without.
func (r evictionREST) spend(ctx context.Context, pod *corev1.Pod, dryRun bool) (*policyv1.PodDisruptionBudget, error) {
	budgets, err := r.covering(ctx, pod)
	if err != nil {
		return nil, err
	}
	switch len(budgets) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 500,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}
	}
	if !ready(pod) && unguarded(budgets[0]) {
		return budgets[0], nil
	}
	key, err := r.budgets().KeyFunc(ctx, budgets[0].Name)
	if err != nil {
		return nil, err
	}
	update := func(existing runtime.Object) (runtime.Object, error) {
		budget := kind.MustBe[*policyv1.PodDisruptionBudget](existing)
		return budget, spendOne(budget, pod.Name)
	}
	err = r.budgets().Storage.GuaranteedUpdate(ctx, key, &policyv1.PodDisruptionBudget{}, false, nil, storage.SimpleUpdate(update), dryRun, nil)
	return nil, storeerr.InterpretUpdateError(err, budgetResource, budgets[0].Name)
}

// covering returns the budgets whose selectors match the Pod.
func (r evictionREST) covering(ctx context.Context, pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	budgets, err := kind.ListIn[*policyv1.PodDisruptionBudgetList](ctx, r.budgets(), pod.Namespace)
	if err != nil {
		return nil, err
	}
	var covering []*policyv1.PodDisruptionBudget
	for i := range budgets.Items {
		budget := &budgets.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			continue // validation lets none in
		}
		if selector.Matches(labels.Set(pod.Labels)) {
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
		return stillProcessed(budget)
	}
	if status.DisruptionsAllowed <= 0 {
		return tooManyDisruptions(budget, 0, whyNone(budget))
	}
	status.DisruptionsAllowed--
	if status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
			ObservedGeneration: status.ObservedGeneration,
		})
	}
	if status.DisruptedPods == nil {
		status.DisruptedPods = map[string]metav1.Time{}
	}
	status.DisruptedPods[pod] = metav1.Now()
	return nil
}

// whyNone says why a budget has no disruption left.
func whyNone(budget *policyv1.PodDisruptionBudget) string {
	status := &budget.Status
	condition := meta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition)
	told := condition != nil && condition.Status == metav1.ConditionFalse && condition.Message != ""
	switch {
	case told && condition.Reason == policyv1.SyncFailedReason: // the numbers cannot be trusted
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", budget.Name, condition.Message)
	case status.CurrentHealthy <= status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", budget.Name, status.DesiredHealthy, status.CurrentHealthy)
	case told:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", budget.Name, condition.Reason, condition.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", budget.Name)
}

// stillProcessed is the refusal for now: a controller has not looked at the budget or at the Pod as they are.
func stillProcessed(budget *policyv1.PodDisruptionBudget) error {
	return tooManyDisruptions(budget, 10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget.Name))
}

// tooManyDisruptions is the refusal, with its cause in the details, and the seconds after which clients try again by
// themselves unless they are 0.
func tooManyDisruptions(budget *policyv1.PodDisruptionBudget, seconds int, message string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	return err
}
