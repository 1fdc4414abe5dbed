// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

// preparePod sets the status of a new Pod: pending, with its class of service.
func preparePod(ctx context.Context, pod, old *corev1.Pod) {
	if old != nil {
		return
	}
	copyAppArmor(ctx, pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosClass(pod)}
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			LastTransitionTime: metav1.Now(),
			Message:            "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
}

// copyAppArmor makes the annotations that were the profiles of containers their fields, and warns of them.
func copyAppArmor(ctx context.Context, pod *corev1.Pod) {
	if onWindows(&pod.Spec) {
		return
	}
	var whole *corev1.AppArmorProfile
	if pod.Spec.SecurityContext != nil {
		whole = pod.Spec.SecurityContext.AppArmorProfile
	}
	everyContainer(&pod.Spec, nil, func(c *corev1.Container, _ *field.Path) {
		annotation, ok := pod.Annotations[appArmorPrefix+c.Name]
		if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			return
		}
		var wrong podCheck
		profile := appArmorOf(annotation)
		if wrong.appArmor(profile, nil); len(wrong.list) > 0 {
			profile = nil
		}
		if profile != nil && apiequality.Semantic.DeepEqual(profile, whole) {
			return
		}
		if profile != nil {
			missing(&c.SecurityContext, corev1.SecurityContext{})
			c.SecurityContext.AppArmorProfile = profile
		}
		warning.AddWarning(ctx, "", annotationsPath().Key(appArmorPrefix+c.Name).String()+": "+outdatedAppArmor)
	})
}

// appArmorOf is the profile that an annotation means, nil if it means none.
func appArmorOf(annotation string) *corev1.AppArmorProfile {
	profile, local := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case annotation == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case annotation == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case local && profile != "":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &profile}
	}
	return nil
}

// preparePodStatus keeps what a kubelet must not change through the status.
func preparePodStatus(_ context.Context, pod, old *corev1.Pod) {
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = old.Status.QOSClass
	}
	unset(&pod.Status.ObservedGeneration, old.Status.ObservedGeneration)
	conditions := slices.Clone(old.Status.Conditions)
	each(pod.Status.Conditions, func(condition *corev1.PodCondition) {
		// There may be several of one type, whose order is all that tells them apart.
		i := slices.IndexFunc(conditions, func(was corev1.PodCondition) bool { return was.Type == condition.Type })
		if i >= 0 {
			unset(&condition.ObservedGeneration, conditions[i].ObservedGeneration)
			conditions = slices.Delete(conditions, i, i+1)
		}
	})
}

// podGrace gives a Pod on a node its grace period; the Pod then stays, with a deletionTimestamp, until somebody in the
// kubelet's place deletes it with a grace period of 0. A Pod that runs nowhere goes at once.
func podGrace(pod *corev1.Pod, options *metav1.DeleteOptions) bool {
	period := int64(0)
	switch {
	case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
	case options.GracePeriodSeconds != nil:
		period = *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	if period < 0 {
		period = 1
	}
	options.GracePeriodSeconds = &period
	return true
}

// qosClass is the class of service that the resources of a Pod's containers make.
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, any := true, false
	count := func(resources corev1.ResourceRequirements) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := resources.Requests[name], resources.Limits[name]
			any = any || request.Sign() > 0 || limit.Sign() > 0
			guaranteed = guaranteed && limit.Sign() > 0 && limit.Cmp(request) == 0
		}
	}
	if pod.Spec.Resources != nil {
		count(*pod.Spec.Resources)
	} else {
		for i := range pod.Spec.InitContainers {
			count(pod.Spec.InitContainers[i].Resources)
		}
		for i := range pod.Spec.Containers {
			count(pod.Spec.Containers[i].Resources)
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// attachPod adds the subresources of Pods.
func attachPod(a *attachment) (map[string]rest.Storage, error) {
	connections := podConnections{
		pods: func() rest.Getter { return a.store }, nodes: a.getter(corev1.Resource("nodes")), access: a.access,
	}
	storages := connections.storages()
	maps.Copy(storages, map[string]rest.Storage{
		"ephemeralcontainers": newPartREST(a.store, ephemeralStrategy(a.strategy)),
		"resize":              newPartREST(a.store, resizeStrategy(a.strategy)),
		"binding":             bindingREST{store: a.store},
		"eviction": evictionREST{
			pods: a.store, status: newPartREST(a.store, newStatusStrategy(a.strategy)),
			budgets: func() budgetStore { return a.peer(budgetResource) },
		},
	})
	return storages, nil
}
