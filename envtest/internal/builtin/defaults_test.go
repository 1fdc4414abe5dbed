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
