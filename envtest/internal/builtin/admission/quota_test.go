// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// TestUsageStats adds up the Pods in a scope.
func TestUsageStats(t *testing.T) {
	g := NewWithT(t)
	sized := func(cpu string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}}}
	}
	ended := sized("8")
	ended.Status.Phase = corev1.PodSucceeded
	late := sized("16")
	period := int64(1)
	late.DeletionTimestamp, late.DeletionGracePeriodSeconds = &metav1.Time{}, &period
	m := measure{usage: podUse, scope: podInScope, list: func(string) ([]runtime.Object, error) {
		return []runtime.Object{sized("1"), sized("2"), &corev1.Pod{}, ended, late}, nil
	}}
	stats, err := m.UsageStats(quota.UsageStatsOptions{
		Resources: []corev1.ResourceName{corev1.ResourceRequestsCPU}, Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stats.Used.Name(corev1.ResourceRequestsCPU, resource.DecimalSI).String()).To(Equal("3"))
	g.Expect(stats.Used.Name(corev1.ResourcePods, resource.DecimalSI).String()).To(Equal("2"), "of those that did not end")
	g.Expect(stats.Used.Name(podsCount, resource.DecimalSI).String()).To(Equal("4"))
}

// TestPodRequestsInResize takes the most of what a Pod asks for, uses, and has set aside.
func TestPodRequestsInResize(t *testing.T) {
	list := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{
			Overhead:   list("100m"),
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list("4"), Limits: list("5")}}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", AllocatedResources: list("3"), Resources: &corev1.ResourceRequirements{Requests: list("2"), Limits: list("3")},
		}}},
	}
	g := NewWithT(t)
	expect := func(requests, limits string) {
		t.Helper()
		r, l := podspec.PodRequests(pod), podspec.PodLimits(pod)
		g.Expect(r.Cpu().String()).To(Equal(requests))
		g.Expect(l.Cpu().String()).To(Equal(limits))
	}
	expect("4100m", "5100m")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	expect("3100m", "3100m")
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list("9")}
	expect("9100m", "3100m")
}
