// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// AppArmorOf is the profile that an annotation means, nil if it means none.
func AppArmorOf(annotation string) *corev1.AppArmorProfile {
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

// resizedStatus is the status of a container with what it uses by its kubelet, nil if there is none. Init containers that end are
// not resized.
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

// inEffect is the most of what is asked for, used and set aside. An infeasible request does not count.
func inEffect(pod *corev1.Pod, asked, used, setAside corev1.ResourceList) corev1.ResourceList {
	most := corev1.ResourceList{}
	infeasible := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible
	})
	if !infeasible {
		RaiseResources(most, asked)
	}
	RaiseResources(most, used)
	RaiseResources(most, setAside)
	return most
}

// IsSidecar reports whether an init container keeps running beside the others.
func IsSidecar(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}

func NodeAffinity(affinity *corev1.Affinity) *corev1.NodeAffinity {
	if affinity == nil {
		return nil
	}
	return affinity.NodeAffinity
}

func RequiredTerms(affinity *corev1.NodeAffinity) []corev1.NodeSelectorTerm {
	if affinity == nil || affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}
