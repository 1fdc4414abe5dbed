// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// PrepareTemplate is a prepare hook for a kind with a Pod template, which the function returns, or nil.
func PrepareTemplate[T runtime.Object](template func(T) *corev1.PodTemplateSpec) func(ctx context.Context, obj, old runtime.Object) {
	return func(_ context.Context, obj, _ runtime.Object) {
		if t := template(kind.MustBe[T](obj)); t != nil {
			DropDisabled(&t.Spec)
		}
	}
}

// DropDisabled drops the fields of features that are off by default. The types have these fields, but this server does not act on
// them.
func DropDisabled(spec *corev1.PodSpec) {
	spec.SchedulingGroup = nil
	kind.Each(spec.Volumes, func(v *corev1.Volume) {
		if v.Projected != nil {
			kind.Each(v.Projected.Sources, func(s *corev1.VolumeProjection) { s.ClusterTrustBundle, s.PodCertificate = nil, nil })
		}
	})
	kind.Each(spec.InitContainers, dropFromContainer)
	kind.Each(spec.Containers, dropFromContainer)
	kind.Each(spec.EphemeralContainers, func(c *corev1.EphemeralContainer) {
		dropFromContainer((*corev1.Container)(&c.EphemeralContainerCommon))
	})
}

func dropFromContainer(c *corev1.Container) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return
	}
	c.Lifecycle.StopSignal = nil
	if *c.Lifecycle == (corev1.Lifecycle{}) {
		c.Lifecycle = nil
	}
}

// DropDisabledStatus drops what kubelets report with such features.
func DropDisabledStatus(status *corev1.PodStatus) {
	status.NodeAllocatableResourceClaimStatuses = nil
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		kind.Each(containers, func(c *corev1.ContainerStatus) {
			kind.Each(c.VolumeMounts, func(m *corev1.VolumeMountStatus) { m.VolumeStatus = nil })
		})
	}
}
