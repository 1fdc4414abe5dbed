// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// dropDisabled drops the fields of features that are off by default from what a client sent, as a kube-apiserver does. The types
// have these fields, but this server does not act on them.
func dropDisabled(obj runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Pod:
		dropFromPod(&o.Spec)
		dropFromPodStatus(&o.Status)
	case *corev1.PodTemplate:
		dropFromPod(&o.Template.Spec)
	case *corev1.ReplicationController:
		if o.Spec.Template != nil {
			dropFromPod(&o.Spec.Template.Spec)
		}
	case *appsv1.Deployment:
		dropFromPod(&o.Spec.Template.Spec)
	case *appsv1.ReplicaSet:
		dropFromPod(&o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		dropFromPod(&o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		dropFromPod(&o.Spec.Template.Spec)
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
			rolling.MaxUnavailable = nil
		}
	case *batchv1.Job:
		dropFromPod(&o.Spec.Template.Spec)
	case *batchv1.CronJob:
		dropFromPod(&o.Spec.JobTemplate.Spec.Template.Spec)
	case *storagev1.CSIDriver:
		o.Spec.PreventPodSchedulingIfMissing = nil
	case *discoveryv1.EndpointSlice: // it is of the old version
		Each(o.Endpoints, func(e *discoveryv1.Endpoint) { e.DeprecatedTopology = nil })
	case *coordinationv1.Lease:
		o.Spec.Strategy, o.Spec.PreferredHolder = nil, nil
	case *corev1.Node:
		//lint:ignore SA1019 that is why it is dropped
		o.Spec.ConfigSource, o.Status.Config = nil, nil
	case *corev1.ServiceAccount: // the names of Secrets are all that counts
		Each(o.Secrets, func(ref *corev1.ObjectReference) { *ref = corev1.ObjectReference{Name: ref.Name} })
	}
}

func dropFromPod(spec *corev1.PodSpec) {
	spec.SchedulingGroup = nil
	Each(spec.Volumes, func(v *corev1.Volume) {
		if v.Projected != nil {
			Each(v.Projected.Sources, func(s *corev1.VolumeProjection) { s.ClusterTrustBundle, s.PodCertificate = nil, nil })
		}
	})
	Each(spec.InitContainers, dropFromContainer)
	Each(spec.Containers, dropFromContainer)
	Each(spec.EphemeralContainers, func(c *corev1.EphemeralContainer) {
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

// dropFromPodStatus drops what kubelets report with such features.
func dropFromPodStatus(status *corev1.PodStatus) {
	status.NodeAllocatableResourceClaimStatuses = nil
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		Each(containers, func(c *corev1.ContainerStatus) {
			Each(c.VolumeMounts, func(m *corev1.VolumeMountStatus) { m.VolumeStatus = nil })
		})
	}
}
