// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// defaultVolume fills a volume; one without a source is an empty directory.
func defaultVolume(v *corev1.Volume) {
	if reflect.ValueOf(v.VolumeSource).IsZero() {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Secret != nil {
		kind.Missing(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		kind.Missing(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		kind.Missing(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.DownwardAPI.Items)
	}
	if v.HostPath != nil {
		kind.Missing(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		defaultClaimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
	if v.Image != nil {
		kind.Unset(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.ISCSI != nil {
		kind.Unset(&v.ISCSI.ISCSIInterface, DefaultISCSIInterface)
	}
	if v.RBD != nil {
		DefaultRBD(&v.RBD.RBDPool, &v.RBD.RadosUser, &v.RBD.Keyring)
	}
	if v.ScaleIO != nil {
		DefaultScaleIO(&v.ScaleIO.StorageMode, &v.ScaleIO.FSType)
	}
	DefaultAzureDisk(v.AzureDisk)
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	kind.Missing(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	kind.Each(p.Sources, func(s *corev1.VolumeProjection) {
		if s.DownwardAPI != nil {
			defaultDownward(s.DownwardAPI.Items)
		}
		if s.ServiceAccountToken != nil {
			kind.Missing(&s.ServiceAccountToken.ExpirationSeconds, int64(60*60))
		}
	})
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	kind.Each(items, func(f *corev1.DownwardAPIVolumeFile) {
		if f.FieldRef != nil {
			kind.Unset(&f.FieldRef.APIVersion, "v1")
		}
	})
}

// The sources of volumes in Pods and of persistent volumes are of different types, mostly with the same fields.

const DefaultISCSIInterface = "default"

func DefaultRBD(pool, user, keyring *string) {
	kind.Unset(pool, "rbd")
	kind.Unset(user, "admin")
	kind.Unset(keyring, "/etc/ceph/keyring")
}

func DefaultScaleIO(mode, fsType *string) {
	kind.Unset(mode, "ThinProvisioned")
	kind.Unset(fsType, "xfs")
}

func DefaultAzureDisk(disk *corev1.AzureDiskVolumeSource) {
	if disk != nil {
		kind.Missing(&disk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		kind.Missing(&disk.FSType, "ext4")
		kind.Missing(&disk.ReadOnly, false)
		kind.Missing(&disk.Kind, corev1.AzureSharedBlobDisk)
	}
}

func DefaultPersistentVolumeClaim(pvc *corev1.PersistentVolumeClaim) {
	kind.Unset(&pvc.Status.Phase, corev1.ClaimPending)
	defaultClaimSpec(&pvc.Spec)
	RoundUp(pvc.Status.Capacity)
	RoundUp(pvc.Status.AllocatedResources)
}

// defaultClaimSpec fills a claim, or a template for claims.
func defaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	kind.Missing(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	RoundUp(spec.Resources.Limits)
	RoundUp(spec.Resources.Requests)
}
