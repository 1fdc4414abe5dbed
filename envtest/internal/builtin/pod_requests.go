// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// podRequests is what a Pod asks for: its containers together, or what it asks for as a whole, and its overhead. While a Pod is
// resized, what a kubelet has set aside for it counts if it is more.
func podRequests(pod *corev1.Pod) corev1.ResourceList {
	requests := sumContainers(&pod.Spec, func(c *corev1.Container) corev1.ResourceList {
		status := resizedStatus(pod, c)
		if status == nil {
			return c.Resources.Requests
		}
		return inEffect(pod, c.Resources.Requests, status.Resources.Requests, status.AllocatedResources)
	})
	if pod.Spec.Resources != nil {
		maps.Copy(requests, wholePod(pod.Spec.Resources.Requests))
	}
	addResources(requests, pod.Spec.Overhead)
	return requests
}

// podLimits is what a Pod may use at most, where there is a limit.
func podLimits(pod *corev1.Pod) corev1.ResourceList {
	limits := sumContainers(&pod.Spec, func(c *corev1.Container) corev1.ResourceList {
		status := resizedStatus(pod, c)
		if status == nil {
			return c.Resources.Limits
		}
		return inEffect(pod, c.Resources.Limits, status.Resources.Limits, nil)
	})
	if pod.Spec.Resources != nil {
		maps.Copy(limits, wholePod(pod.Spec.Resources.Limits))
	}
	for name, value := range pod.Spec.Overhead {
		if limit, ok := limits[name]; ok && !limit.IsZero() {
			limit.Add(value)
			limits[name] = limit
		}
	}
	return limits
}

// wholePod leaves those resources that a Pod can name for all of its containers.
func wholePod(list corev1.ResourceList) corev1.ResourceList {
	whole := corev1.ResourceList{}
	for name, value := range list {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHugePages(name) {
			whole[name] = value
		}
	}
	return whole
}

// resizedStatus is the status of a container of which a kubelet said what it uses, nil if there is none. Init containers that end
// are not resized.
func resizedStatus(pod *corev1.Pod, c *corev1.Container) *corev1.ContainerStatus {
	statuses := pod.Status.ContainerStatuses
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		statuses = slices.Concat(pod.Status.InitContainerStatuses, statuses)
	}
	for i := range statuses {
		if statuses[i].Name == c.Name && statuses[i].Resources != nil {
			return &statuses[i]
		}
	}
	return nil
}

// inEffect is the most of what is asked for, used and set aside. What is asked for does not count when it cannot be had.
func inEffect(pod *corev1.Pod, asked, used, setAside corev1.ResourceList) corev1.ResourceList {
	most := corev1.ResourceList{}
	infeasible := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible
	})
	if !infeasible {
		raiseResources(most, asked)
	}
	raiseResources(most, used)
	raiseResources(most, setAside)
	return most
}

// containerRequests is what the containers of a Pod ask for together: what runs at the same time is added up, and init
// containers run one after the other, beside the sidecars that were started before them.
func containerRequests(spec *corev1.PodSpec) corev1.ResourceList {
	return sumContainers(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
}

func sumContainers(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	sum, sidecars, most := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.Containers {
		addResources(sum, of(&spec.Containers[i]))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		at := corev1.ResourceList{}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			addResources(sum, of(c))
			addResources(sidecars, of(c))
			addResources(at, sidecars)
		} else {
			addResources(at, sidecars)
			addResources(at, of(c))
		}
		raiseResources(most, at)
	}
	raiseResources(sum, most)
	return sum
}

func addResources(sum, more corev1.ResourceList) {
	for name, value := range more {
		total, ok := sum[name]
		if !ok {
			total = resource.Quantity{Format: value.Format}
		}
		total.Add(value)
		sum[name] = total
	}
}

func raiseResources(sum, least corev1.ResourceList) {
	for name, value := range least {
		if total, ok := sum[name]; !ok || total.Cmp(value) < 0 {
			sum[name] = value.DeepCopy()
		}
	}
}
