// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PodRequests has the requests of a Pod: those of its containers together, or of the Pod as a whole, and its overhead. While a
// Pod is resized, what a kubelet has set aside for it counts if it is more.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	requests := SumContainers(&pod.Spec, func(c *corev1.Container) corev1.ResourceList {
		status := resizedStatus(pod, c)
		if status == nil {
			return c.Resources.Requests
		}
		return inEffect(pod, c.Resources.Requests, status.Resources.Requests, status.AllocatedResources)
	})
	if pod.Spec.Resources != nil {
		maps.Copy(requests, WholePod(pod.Spec.Resources.Requests))
	}
	AddResources(requests, pod.Spec.Overhead)
	return requests
}

// PodLimits is what a Pod may use at most, where there is a limit.
func PodLimits(pod *corev1.Pod) corev1.ResourceList {
	limits := SumContainers(&pod.Spec, func(c *corev1.Container) corev1.ResourceList {
		status := resizedStatus(pod, c)
		if status == nil {
			return c.Resources.Limits
		}
		return inEffect(pod, c.Resources.Limits, status.Resources.Limits, nil)
	})
	if pod.Spec.Resources != nil {
		maps.Copy(limits, WholePod(pod.Spec.Resources.Limits))
	}
	for name, value := range pod.Spec.Overhead {
		if limit, ok := limits[name]; ok && !limit.IsZero() {
			limit.Add(value)
			limits[name] = limit
		}
	}
	return limits
}

// WholePod leaves those resources that a Pod can name for all of its containers.
func WholePod(list corev1.ResourceList) corev1.ResourceList {
	whole := corev1.ResourceList{}
	for name, value := range list {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || IsHugePages(name) {
			whole[name] = value
		}
	}
	return whole
}

// ContainerRequests has the requests of the containers of a Pod together: containers that run at the same time are
// added up. Init containers run one after the other, beside the sidecars started before them.
func ContainerRequests(spec *corev1.PodSpec) corev1.ResourceList {
	return SumContainers(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
}

func SumContainers(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	sum, sidecars, most := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.Containers {
		AddResources(sum, of(&spec.Containers[i]))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		at := corev1.ResourceList{}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			AddResources(sum, of(c))
			AddResources(sidecars, of(c))
			AddResources(at, sidecars)
		} else {
			AddResources(at, sidecars)
			AddResources(at, of(c))
		}
		RaiseResources(most, at)
	}
	RaiseResources(sum, most)
	return sum
}

func AddResources(sum, more corev1.ResourceList) {
	for name, value := range more {
		total, ok := sum[name]
		if !ok {
			total = resource.Quantity{Format: value.Format}
		}
		total.Add(value)
		sum[name] = total
	}
}

func RaiseResources(sum, least corev1.ResourceList) {
	for name, value := range least {
		if total, ok := sum[name]; !ok || total.Cmp(value) < 0 {
			sum[name] = value.DeepCopy()
		}
	}
}
