// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// The rules are those of kube-apiserver's pkg/apis/core/validation/validation.go.

// validateResize checks that a Pod can be given other resources, and that nothing but CPU and memory changes. The containers of pod
// and old are the same ones, in the same order.
func validateResize(pod, old *corev1.Pod) field.ErrorList {
	if _, ok := old.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	f := kind.Findings{List: podspec.ValidatePodSpec(&pod.Spec, true, kind.SpecPath())}
	was := old.Status.QOSClass
	if was == "" {
		was = QosClass(old)
	}
	f.Invalid(was != QosClass(pod), kind.SpecPath(), pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing")
	f.Forbid(!nodeResizes(old), kind.SpecPath(), "Pod running on node without support for resize")
	rest := pod.Spec.DeepCopy() // becomes what is neither CPU nor memory
	if hasAmounts(old.Spec.Resources) || hasAmounts(pod.Spec.Resources) {
		checkResizedPod(&f, pod.Spec.Resources, old.Spec.Resources, rest)
	}
	checkRemovedAmounts(&f, pod.Spec.InitContainers, old.Spec.InitContainers, kind.SpecPath("initContainers"))
	checkRemovedAmounts(&f, pod.Spec.Containers, old.Spec.Containers, kind.SpecPath("containers"))
	for i := range rest.Containers {
		was := &old.Spec.Containers[i]
		keepCPUAndMemory(&rest.Containers[i], was)
		f.Forbid(!apiequality.Semantic.DeepEqual(&rest.Containers[i], was), kind.SpecPath(), "only cpu and memory resources are mutable")
	}
	checkResizedInit(&f, rest.InitContainers, old.Spec.InitContainers)
	if len(f.List) == 0 {
		f.Forbid(!apiequality.Semantic.DeepEqual(rest, &old.Spec), kind.SpecPath(), "only cpu and memory resources are mutable")
	}
	return f.List
}

// nodeResizes reports whether the node of a Pod can give it other resources, as far as the status of its containers tells.
func nodeResizes(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.State.Running != nil {
			return c.Resources != nil
		}
	}
	return true
}

func hasAmounts(r *corev1.ResourceRequirements) bool {
	return r != nil && len(r.Requests)+len(r.Limits) > 0
}

// checkResizedPod checks the resources of the Pod as a whole, and gives rest its old CPU and memory.
func checkResizedPod(f *kind.Findings, now, was *corev1.ResourceRequirements, rest *corev1.PodSpec) {
	at := kind.SpecPath("resources")
	if was != nil && now == nil {
		f.Forbid(true, at, "pod-level resources cannot be removed")
		return
	}
	had := was
	if had == nil {
		had = &corev1.ResourceRequirements{}
	}
	f.Forbid(lacks(now.Requests, had.Requests), at.Child("requests"), "pod-level resource requests cannot be removed")
	f.Forbid(lacks(now.Limits, had.Limits), at.Child("limits"), "pod-level resource limits cannot be removed")
	rest.Resources.Requests = withCPUAndMemory(now.Requests, had.Requests)
	rest.Resources.Limits = withCPUAndMemory(now.Limits, had.Limits)
	if was == nil && !hasAmounts(rest.Resources) && len(rest.Resources.Claims) == 0 {
		rest.Resources = nil
	}
	f.Forbid(!apiequality.Semantic.DeepEqual(rest.Resources, was), kind.SpecPath(), "only cpu and memory resources are mutable at pod-level")
}

// checkRemovedAmounts refuses to take a request or a limit away from a container.
func checkRemovedAmounts(f *kind.Findings, now, was []corev1.Container, at *field.Path) {
	for i := range was {
		at := at.Index(i).Child("resources")
		f.Forbid(lacks(now[i].Resources.Requests, was[i].Resources.Requests), at.Child("requests"), "resource requests cannot be removed")
		f.Forbid(lacks(now[i].Resources.Limits, was[i].Resources.Limits), at.Child("limits"), "resource limits cannot be removed")
	}
}

// checkResizedInit checks what else changes of init containers and sidecars. now becomes what is neither CPU nor memory.
func checkResizedInit(f *kind.Findings, now, was []corev1.Container) {
	for i := range now {
		at := kind.SpecPath("initContainers").Index(i)
		changed := !apiequality.Semantic.DeepEqual(&now[i], &was[i])
		keepCPUAndMemory(&now[i], &was[i])
		f.Forbid(!apiequality.Semantic.DeepEqual(&now[i], &was[i]), at, "only cpu and memory resources for init or sidecar containers are mutable")
		sidecar := now[i].RestartPolicy != nil && *now[i].RestartPolicy == corev1.ContainerRestartPolicyAlways
		for _, policy := range now[i].ResizePolicy {
			f.Forbid(changed && !sidecar && policy.RestartPolicy == corev1.RestartContainer, at,
				"non-sidecar init containers with a resize policy of RestartContainer cannot be resized")
		}
	}
}

// lacks reports whether list has no amount of something that was has.
func lacks(list, was corev1.ResourceList) bool {
	for name := range was {
		if _, ok := list[name]; !ok {
			return true
		}
	}
	return false
}

// keepCPUAndMemory gives a container the CPU and memory that it had. As on a kube-apiserver it loses its claims, so that one with
// claims cannot be resized.
func keepCPUAndMemory(c, was *corev1.Container) {
	c.Resources = corev1.ResourceRequirements{
		Requests: withCPUAndMemory(c.Resources.Requests, was.Resources.Requests),
		Limits:   withCPUAndMemory(c.Resources.Limits, was.Resources.Limits),
	}
}

// withCPUAndMemory returns list with the CPU and memory of another one.
func withCPUAndMemory(list, of corev1.ResourceList) corev1.ResourceList {
	changed := corev1.ResourceList{}
	maps.Copy(changed, list)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		delete(changed, name)
		if amount, ok := of[name]; ok {
			changed[name] = amount
		}
	}
	return changed
}
