// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/connect"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// defaultPod fills a Pod with the defaults of templates, and with those of Pods alone.
func defaultPod(pod *corev1.Pod) {
	podspec.DropOldAnnotations(pod.Annotations)
	podspec.DefaultPodSpec(&pod.Spec)
	kind.Missing(&pod.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if seconds := pod.Spec.TerminationGracePeriodSeconds; *seconds < 0 {
		*seconds = 1
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		kind.Each(containers, func(c *corev1.Container) {
			requestLimits(&c.Resources)
			if pod.Spec.HostNetwork {
				kind.Each(c.Ports, func(p *corev1.ContainerPort) { kind.Unset(&p.HostPort, p.ContainerPort) })
			}
		})
	}
	if pod.Spec.Resources != nil {
		defaultWholePod(&pod.Spec)
	}
	defaultPodStatus(&pod.Status)
}

// defaultWholePod completes the resources of a Pod as a whole, where it has some: limits of huge pages are those of its containers,
// and a request is what its containers request, or the limit.
func defaultWholePod(spec *corev1.PodSpec) {
	whole := spec.Resources
	add := func(list *corev1.ResourceList, name corev1.ResourceName, value resource.Quantity) {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		if _, ok := (*list)[name]; !ok {
			(*list)[name] = value.DeepCopy()
		}
	}
	if len(whole.Limits)+len(whole.Requests) > 0 {
		for name, limit := range podspec.SumContainers(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits }) {
			if _, ok := whole.Requests[name]; !ok && podspec.IsHugePages(name) {
				add(&whole.Limits, name, limit)
			}
		}
	}
	if len(whole.Limits) == 0 {
		return
	}
	for name, request := range podspec.WholePod(podspec.ContainerRequests(spec)) {
		if podspec.MayExceed(name) {
			add(&whole.Requests, name, request)
		}
	}
	for name, limit := range podspec.WholePod(whole.Limits) {
		add(&whole.Requests, name, limit)
	}
}

func defaultPodStatus(status *corev1.PodStatus) {
	// The two ways to write the address of a Pod say the same; the old one wins.
	switch {
	case status.PodIP == "" && len(status.PodIPs) > 0:
		status.PodIP = status.PodIPs[0].IP
	case status.PodIP != "" && (len(status.PodIPs) == 0 || status.PodIPs[0].IP != status.PodIP):
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		kind.Each(containers, func(c *corev1.ContainerStatus) {
			podspec.RoundUp(c.AllocatedResources)
			podspec.RoundRequirements(c.Resources)
		})
	}
	podspec.RoundUp(status.AllocatedResources)
	podspec.RoundRequirements(status.Resources)
}

// requestLimits makes each limit without a request the request too.
func requestLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

// podFieldSet is the fields of Pods; spec.host is the old name of spec.nodeName.
func podFieldSet() kind.FieldSet {
	set := kind.Selectable(podFields, "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
		"spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName")
	accepted := set.Convert
	set.Convert = func(label, value string) (string, string, error) {
		if label == "spec.host" {
			label = "spec.nodeName"
		}
		return accepted(label, value)
	}
	return set
}

func podFields(pod *corev1.Pod, set fields.Set) {
	set["spec.nodeName"] = pod.Spec.NodeName
	set["spec.restartPolicy"] = string(pod.Spec.RestartPolicy)
	set["spec.schedulerName"] = pod.Spec.SchedulerName
	set["spec.serviceAccountName"] = pod.Spec.ServiceAccountName
	set["spec.hostNetwork"] = strconv.FormatBool(pod.Spec.HostNetwork)
	set["status.phase"] = string(pod.Status.Phase)
	set["status.podIP"] = pod.Status.PodIP
	set["status.nominatedNodeName"] = pod.Status.NominatedNodeName
}

// podNodeName is the trigger by which a watch cache finds the watchers of one node's Pods.
func podNodeName(obj runtime.Object) string {
	return kind.MustBe[*corev1.Pod](obj).Spec.NodeName
}

// preparePod sets the status of a new Pod: pending, with its class of service.
func preparePod(ctx context.Context, pod, old *corev1.Pod) {
	podspec.DropDisabled(&pod.Spec)
	if old != nil {
		return
	}
	copyAppArmor(ctx, pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: QosClass(pod)}
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
	if podspec.OnWindows(&pod.Spec) {
		return
	}
	var whole *corev1.AppArmorProfile
	if pod.Spec.SecurityContext != nil {
		whole = pod.Spec.SecurityContext.AppArmorProfile
	}
	podspec.EveryContainer(&pod.Spec, nil, func(c *corev1.Container, _ *field.Path) {
		annotation, ok := pod.Annotations[podspec.AppArmorPrefix+c.Name]
		if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			return
		}
		var wrong podspec.PodCheck
		profile := podspec.AppArmorOf(annotation)
		if wrong.AppArmor(profile, nil); len(wrong.List) > 0 {
			profile = nil
		}
		if profile != nil && apiequality.Semantic.DeepEqual(profile, whole) {
			return
		}
		if profile != nil {
			kind.Missing(&c.SecurityContext, corev1.SecurityContext{})
			c.SecurityContext.AppArmorProfile = profile
		}
		warning.AddWarning(ctx, "", kind.AnnotationsPath().Key(podspec.AppArmorPrefix+c.Name).String()+": "+podspec.OutdatedAppArmor)
	})
}

// preparePodStatus keeps what a kubelet must not change through the status.
func preparePodStatus(_ context.Context, pod, old *corev1.Pod) {
	podspec.DropDisabledStatus(&pod.Status)
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = old.Status.QOSClass
	}
	kind.Unset(&pod.Status.ObservedGeneration, old.Status.ObservedGeneration)
	conditions := slices.Clone(old.Status.Conditions)
	kind.Each(pod.Status.Conditions, func(condition *corev1.PodCondition) {
		// There may be several of one type, whose order is all that tells them apart.
		i := slices.IndexFunc(conditions, func(was corev1.PodCondition) bool { return was.Type == condition.Type })
		if i >= 0 {
			kind.Unset(&condition.ObservedGeneration, conditions[i].ObservedGeneration)
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

// QosClass is the class of service that the resources of a Pod's containers make.
func QosClass(pod *corev1.Pod) corev1.PodQOSClass {
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
func attachPod(a *kind.Served) (map[string]rest.Storage, error) {
	connections := connect.PodConnections{
		Pods: func() rest.Getter { return a.Store }, Nodes: a.Getter(corev1.Resource("nodes")), Access: a.Access,
	}
	storages := connections.Storages()
	maps.Copy(storages, map[string]rest.Storage{
		"ephemeralcontainers": kind.NewPartREST(a.Store, ephemeralStrategy(a.Strategy)),
		"resize":              kind.NewPartREST(a.Store, resizeStrategy(a.Strategy)),
		"binding":             bindingREST{store: a.Store},
		"eviction": evictionREST{
			pods: a.Store, status: kind.NewPartREST(a.Store, kind.NewStatusStrategy(a.Strategy)),
			budgets: func() budgetStore { return a.Peer(budgetResource) },
		},
	})
	return storages, nil
}

// validatePod checks a Pod. Only few fields of the spec of a Pod may change.
func validatePod(pod, old *corev1.Pod) field.ErrorList {
	path := kind.SpecPath()
	errs := append(podspec.ValidatePodSpec(&pod.Spec, true, path), onlyForPods(pod, path)...)
	var f kind.Findings
	if old != nil {
		podspec.CheckKeptAnnotations(&f, pod.Annotations, old.Annotations)
		return append(append(errs, f.List...), validatePodUpdate(&pod.Spec, &old.Spec, path)...)
	}
	podspec.CheckProfiles(&f, pod.Annotations, &pod.Spec, path)
	errs = append(errs, f.List...)
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// warnPod warns of a new Pod; updates of Pods are too many.
func warnPod(w *kind.Warnings, pod, _ *corev1.Pod) {
	if !w.Created {
		return
	}
	w.Label(pod.Name, "the Pod's hostname")
	podspec.WarnTemplate(w, &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, nil)
}

// warnPodStatus warns of the addresses of a Pod.
func warnPodStatus(w *kind.Warnings, pod, _ *corev1.Pod) {
	at := field.NewPath("status")
	for i, ip := range pod.Status.PodIPs {
		w.IP(ip.IP, at.Child("podIPs").Index(i).Child("ip"))
	}
	for i, ip := range pod.Status.HostIPs {
		w.IP(ip.IP, at.Child("hostIPs").Index(i).Child("ip"))
	}
}
