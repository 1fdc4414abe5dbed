// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func defaultPersistentVolume(pv *corev1.PersistentVolume) {
	kind.Unset(&pv.Status.Phase, corev1.VolumePending)
	kind.Unset(&pv.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	kind.Missing(&pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	podspec.RoundUp(pv.Spec.Capacity)
	if pv.Spec.HostPath != nil {
		kind.Missing(&pv.Spec.HostPath.Type, corev1.HostPathUnset)
	}
	if pv.Spec.ISCSI != nil {
		kind.Unset(&pv.Spec.ISCSI.ISCSIInterface, podspec.DefaultISCSIInterface)
	}
	if rbd := pv.Spec.RBD; rbd != nil {
		podspec.DefaultRBD(&rbd.RBDPool, &rbd.RadosUser, &rbd.Keyring)
	}
	if pv.Spec.ScaleIO != nil {
		podspec.DefaultScaleIO(&pv.Spec.ScaleIO.StorageMode, &pv.Spec.ScaleIO.FSType)
	}
	podspec.DefaultAzureDisk(pv.Spec.AzureDisk)
}
