// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// defaultVolume fills a volume; one without a source is an empty directory.
func defaultVolume(v *corev1.Volume) {
	if reflect.ValueOf(v.VolumeSource).IsZero() {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Secret != nil {
		missing(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		missing(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		missing(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.DownwardAPI.Items)
	}
	if v.HostPath != nil {
		missing(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		defaultClaimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
	if v.Image != nil {
		unset(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.ISCSI != nil {
		unset(&v.ISCSI.ISCSIInterface, defaultISCSIInterface)
	}
	if v.RBD != nil {
		defaultRBD(&v.RBD.RBDPool, &v.RBD.RadosUser, &v.RBD.Keyring)
	}
	if v.ScaleIO != nil {
		defaultScaleIO(&v.ScaleIO.StorageMode, &v.ScaleIO.FSType)
	}
	defaultAzureDisk(v.AzureDisk)
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	missing(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	each(p.Sources, func(s *corev1.VolumeProjection) {
		if s.DownwardAPI != nil {
			defaultDownward(s.DownwardAPI.Items)
		}
		if s.ServiceAccountToken != nil {
			missing(&s.ServiceAccountToken.ExpirationSeconds, int64(60*60))
		}
	})
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	each(items, func(f *corev1.DownwardAPIVolumeFile) {
		if f.FieldRef != nil {
			unset(&f.FieldRef.APIVersion, "v1")
		}
	})
}

func defaultPersistentVolume(pv *corev1.PersistentVolume) {
	unset(&pv.Status.Phase, corev1.VolumePending)
	unset(&pv.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	missing(&pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(pv.Spec.Capacity)
	if pv.Spec.HostPath != nil {
		missing(&pv.Spec.HostPath.Type, corev1.HostPathUnset)
	}
	if pv.Spec.ISCSI != nil {
		unset(&pv.Spec.ISCSI.ISCSIInterface, defaultISCSIInterface)
	}
	if rbd := pv.Spec.RBD; rbd != nil {
		defaultRBD(&rbd.RBDPool, &rbd.RadosUser, &rbd.Keyring)
	}
	if pv.Spec.ScaleIO != nil {
		defaultScaleIO(&pv.Spec.ScaleIO.StorageMode, &pv.Spec.ScaleIO.FSType)
	}
	defaultAzureDisk(pv.Spec.AzureDisk)
}

// The sources of volumes in Pods and of persistent volumes are of different types, mostly with the same fields.

const defaultISCSIInterface = "default"

func defaultRBD(pool, user, keyring *string) {
	unset(pool, "rbd")
	unset(user, "admin")
	unset(keyring, "/etc/ceph/keyring")
}

func defaultScaleIO(mode, fsType *string) {
	unset(mode, "ThinProvisioned")
	unset(fsType, "xfs")
}

func defaultAzureDisk(disk *corev1.AzureDiskVolumeSource) {
	if disk != nil {
		missing(&disk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		missing(&disk.FSType, "ext4")
		missing(&disk.ReadOnly, false)
		missing(&disk.Kind, corev1.AzureSharedBlobDisk)
	}
}

func defaultPersistentVolumeClaim(pvc *corev1.PersistentVolumeClaim) {
	unset(&pvc.Status.Phase, corev1.ClaimPending)
	defaultClaimSpec(&pvc.Spec)
	roundUp(pvc.Status.Capacity)
	roundUp(pvc.Status.AllocatedResources)
}

// defaultClaimSpec fills a claim, or a template for claims.
func defaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	missing(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(spec.Resources.Limits)
	roundUp(spec.Resources.Requests)
}
