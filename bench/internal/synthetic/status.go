// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

func (d draft) status() corev1.PodStatus {
	start, host := d.created, fmt.Sprintf("10.200.%d.%d", d.node/250, d.node%250)
	return corev1.PodStatus{
		ObservedGeneration: 1,
		Phase:              corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			d.condition(corev1.PodReadyToStartContainers),
			d.condition(corev1.PodInitialized),
			d.condition(corev1.PodReady),
			d.condition(corev1.ContainersReady),
			d.condition(corev1.PodScheduled),
		},
		HostIP: host, HostIPs: []corev1.HostIP{{IP: host}},
		PodIP: d.podIP(), PodIPs: []corev1.PodIP{{IP: d.podIP()}},
		StartTime: &start,
		QOSClass:  corev1.PodQOSGuaranteed,
		ContainerStatuses: []corev1.ContainerStatus{
			d.containerStatus("main", d.image()),
			d.containerStatus("proxy", proxyImage),
		},
	}
}

// podIP is drawn by the Pod's number alone, because managedFields repeat it.
func (d draft) podIP() string {
	random := d.Cluster.random(uint64(d.number), 3)
	return fmt.Sprintf("10.%d.%d.%d", random.IntN(200), random.IntN(255), random.IntN(255))
}

func (d draft) condition(kind corev1.PodConditionType) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: d.created, ObservedGeneration: 1}
}

func (d draft) containerStatus(name, image string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: name, Ready: true, Started: new(true), Image: image,
		ImageID:     "registry.example.com/platform/" + name + "@sha256:" + d.ofApp(d.app, "image-"+name, 64),
		ContainerID: "containerd://" + word(d.random, 64, hexadecimal),
		State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: d.created}},
	}
}
