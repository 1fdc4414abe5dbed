// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

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
