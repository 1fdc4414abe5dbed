// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newPod returns a Pod of one container. It never runs: the scheduling gate keeps
// it where it is, so that the program prints the same on every cluster.
func newPod(namespace, name, app, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "tarn.dev/quickstart"}},
			Containers:      []corev1.Container{{Name: "main", Image: image}},
		},
	}
}

// images are the values of the field index: the images of a Pod's containers.
func images(obj client.Object) []string {
	var images []string
	for _, container := range obj.(*corev1.Pod).Spec.Containers {
		images = append(images, container.Image)
	}
	return images
}

func names(pods *corev1.PodList) string {
	var names []string
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return strings.Join(names, " ")
}
