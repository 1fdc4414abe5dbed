// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"a":                       corev1.PullAlways,
		"a:latest":                corev1.PullAlways,
		"a:1":                     corev1.PullIfNotPresent,
		"host:5000/a":             corev1.PullAlways,
		"host:5000/a:1":           corev1.PullIfNotPresent,
		"a@sha256:0123456789":     corev1.PullIfNotPresent,
		"host:1/a:2@sha256:01234": corev1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

func TestDefaultPod(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "a", Image: "a:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}},
		Volumes: []corev1.Volume{{Name: "empty"}},
	}}
	want := pod.DeepCopy()
	spec := &want.Spec
	spec.RestartPolicy, spec.DNSPolicy, spec.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, "default-scheduler"
	spec.TerminationGracePeriodSeconds, spec.EnableServiceLinks = ptr.To[int64](30), ptr.To(true)
	spec.SecurityContext = &corev1.PodSecurityContext{}
	spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	spec.Containers[0].TerminationMessagePath, spec.Containers[0].TerminationMessagePolicy = "/dev/termination-log", corev1.TerminationMessageReadFile
	spec.Containers[0].Ports[0].Protocol = corev1.ProtocolTCP
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	spec.Volumes[0].EmptyDir = &corev1.EmptyDirVolumeSource{}
	Scheme().Default(pod)
	if !apiequality.Semantic.DeepEqual(pod, want) {
		t.Errorf("got  %v\nwant %v", pod, want)
	}
}

func TestDefaultsReachListItems(t *testing.T) {
	list := &corev1.SecretList{Items: []corev1.Secret{{}}}
	Scheme().Default(list)
	if list.Items[0].Type != corev1.SecretTypeOpaque {
		t.Errorf("type is %q", list.Items[0].Type)
	}
}

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
		if got := qosClass(pod); got != c.want {
			t.Errorf("requests %v, limits %v: %s, want %s", c.requests, c.limits, got, c.want)
		}
	}
}
