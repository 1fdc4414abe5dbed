// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestQOSClass(t *testing.T) {
	all := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for _, c := range []struct {
		want             corev1.PodQOSClass
		requests, limits corev1.ResourceList
	}{
		{corev1.PodQOSBestEffort, nil, nil},
		{corev1.PodQOSBurstable, cpu, nil},
		{corev1.PodQOSBurstable, cpu, all},
		{corev1.PodQOSGuaranteed, all, all},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}}}}}
		if got := QosClass(pod); got != c.want {
			t.Errorf("requests %v, limits %v: %s, want %s", c.requests, c.limits, got, c.want)
		}
	}
}

func TestPodGrace(t *testing.T) {
	for _, c := range []struct {
		name      string
		pod       corev1.Pod
		requested *int64
		want      int64
	}{
		{"unscheduled", corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](30)}}, nil, 0},
		{"on a node", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: ptr.To[int64](30)}}, nil, 30},
		{"on a node, forced", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}, ptr.To[int64](0), 0},
		{"on a node, in a hurry", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: ptr.To[int64](30)}}, ptr.To[int64](5), 5},
		{"done", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: ptr.To[int64](30)}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, nil, 0},
	} {
		options := &metav1.DeleteOptions{GracePeriodSeconds: c.requested}
		if !podGrace(&c.pod, options) || *options.GracePeriodSeconds != c.want {
			t.Errorf("%s: grace period is %d, want %d", c.name, *options.GracePeriodSeconds, c.want)
		}
	}
}
