// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// ClassOf is the storage class of a volume or a claim. An annotation, which is older than the field, counts more.
func ClassOf(annotations map[string]string, field *string) string {
	if class, ok := annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return kind.Value(field, "")
}

// inlineOnly says where a field of a volume makes no sense.
const inlineOnly = "may not be specified in the context of inline volumes"

// validatePersistentVolume checks that there is one source and what it is good for. The source is kept.
func validatePersistentVolume(pv, old *corev1.PersistentVolume) field.ErrorList {
	f := kind.Findings{List: VolumeSpec(&pv.Spec, pv.Name, false, kind.SpecPath())}
	checkMountOptions(&f, pv)
	if old == nil {
		return f.List
	}
	source := pv.Spec.PersistentVolumeSource
	if was := old.Spec.CSI; was != nil && was.ControllerExpandSecretRef == nil && source.CSI != nil {
		csi := *source.CSI // a secret for expansion may be added
		csi.ControllerExpandSecretRef = nil
		source.CSI = &csi
	}
	if !apiequality.Semantic.DeepEqual(source, old.Spec.PersistentVolumeSource) {
		f.Forbid(true, kind.SpecPath("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation\n"+
			diff.Diff(old.Spec.PersistentVolumeSource, source))
	}
	f.Add(kind.Frozen(pv.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode")))
	if old.Spec.NodeAffinity != nil {
		f.Add(kind.Frozen(pv.Spec.NodeAffinity, old.Spec.NodeAffinity, field.NewPath("nodeAffinity")))
	}
	f.Forbid(old.Spec.VolumeAttributesClassName != nil && pv.Spec.VolumeAttributesClassName == nil, kind.SpecPath("volumeAttributesClassName"),
		"update from non-nil value to nil is forbidden")
	return f.List
}

// VolumeSpec checks a volume, or the inline volume of a VolumeAttachment.
func VolumeSpec(spec *corev1.PersistentVolumeSpec, name string, inline bool, at *field.Path) field.ErrorList {
	var f kind.Findings
	podspec.CheckAccessModes(&f, spec.AccessModes, at.Child("accessModes"))
	if inline {
		f.Forbid(spec.ClaimRef != nil, at.Child("claimRef"), inlineOnly)
		f.Forbid(len(spec.Capacity) > 0, at.Child("capacity"), inlineOnly)
		f.Need(spec.CSI != nil, at.Child("csi"))
		f.Forbid(spec.PersistentVolumeReclaimPolicy != "" && spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain,
			at.Child("persistentVolumeReclaimPolicy"), "may only be Retain in the context of inline volumes")
		f.Forbid(spec.NodeAffinity != nil, at.Child("nodeAffinity"), inlineOnly)
		f.Forbid(spec.StorageClassName != "", at.Child("storageClassName"), inlineOnly)
		f.Forbid(spec.VolumeMode != nil && *spec.VolumeMode != corev1.PersistentVolumeFilesystem, at.Child("volumeMode"),
			"may not specify volumeMode other than Filesystem in the context of inline volumes")
	} else {
		checkVolume(&f, spec, at)
	}
	f.ExactlyOne(at, podspec.OneSource, podspec.SomeSource, volumeSources(&f, spec, name, at))
	f.Forbid(spec.HostPath != nil && path.Clean(spec.HostPath.Path) == "/" && spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle,
		at.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'")
	if class := spec.VolumeAttributesClassName; class != nil {
		if f.Text(*class, at.Child("volumeAttributesClassName")) {
			f.Subdomain(*class, at.Child("volumeAttributesClassName"))
		}
		f.Need(spec.CSI != nil, at.Child("csi"))
	}
	return f.List
}

// checkVolume checks what only volumes of their own have.
func checkVolume(f *kind.Findings, spec *corev1.PersistentVolumeSpec, at *field.Path) {
	f.Need(len(spec.Capacity) > 0, at.Child("capacity"))
	if _, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		f.List = append(f.List, field.NotSupported(at.Child("capacity"), spec.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for name, size := range spec.Capacity {
		f.Invalid(size.Sign() <= 0, at.Child("capacity").Key(string(name)), size.String(), "must be greater than zero")
	}
	if spec.PersistentVolumeReclaimPolicy != "" {
		kind.Known(f, spec.PersistentVolumeReclaimPolicy, at.Child("persistentVolumeReclaimPolicy"),
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	if spec.NodeAffinity != nil {
		if f.Need(spec.NodeAffinity.Required != nil, at.Child("nodeAffinity", "required")); spec.NodeAffinity.Required != nil {
			podspec.CheckNodeSelector(f, spec.NodeAffinity.Required, true, at.Child("nodeAffinity", "required"))
		}
	}
	if spec.StorageClassName != "" {
		f.Subdomain(spec.StorageClassName, at.Child("storageClassName"))
	}
	kind.Chosen(f, spec.VolumeMode, at.Child("volumeMode"), corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
}

// volumeSources has more than sixty lines because it is a list: a line or two for each source.
func volumeSources(f *kind.Findings, s *corev1.PersistentVolumeSpec, name string, above *field.Path) []kind.Alternative {
	text := func(value string, names ...string) func(at *field.Path) {
		return func(at *field.Path) { f.Text(value, at.Child(names[0], names[1:]...)) }
	}
	return []kind.Alternative{
		{Name: "hostPath", Given: s.HostPath != nil, Check: func(at *field.Path) { podspec.CheckHostPath(f, s.HostPath, at) }},
		{Name: "gcePersistentDisk", At: "persistentDisk", Given: s.GCEPersistentDisk != nil, Check: func(at *field.Path) { podspec.CheckGceDisk(f, s.GCEPersistentDisk, at) }},
		{Name: "awsElasticBlockStore", Given: s.AWSElasticBlockStore != nil, Check: func(at *field.Path) { podspec.CheckAwsDisk(f, s.AWSElasticBlockStore, at) }},
		{Name: "glusterfs", Given: s.Glusterfs != nil, Check: func(at *field.Path) {
			podspec.CheckGluster(f, s.Glusterfs.EndpointsName, s.Glusterfs.Path, at)
			if namespace := s.Glusterfs.EndpointsNamespace; namespace != nil {
				f.Messages(apivalidation.ValidateNamespaceName(*namespace, false), *namespace, at.Child("endpointsNamespace"))
			}
		}},
		{Name: "flocker", Given: s.Flocker != nil, Check: func(at *field.Path) { podspec.CheckFlocker(f, s.Flocker, at) }},
		{Name: "nfs", Given: s.NFS != nil, Check: func(at *field.Path) { podspec.CheckNfs(f, s.NFS, at) }},
		{Name: "rbd", Given: s.RBD != nil, Check: func(at *field.Path) { podspec.CheckRbd(f, s.RBD.CephMonitors, s.RBD.RBDImage, at) }},
		{Name: "quobyte", Given: s.Quobyte != nil, Check: func(at *field.Path) { podspec.CheckQuobyte(f, s.Quobyte, at) }},
		{Name: "cephFS", At: "cephfs", Given: s.CephFS != nil, Check: func(at *field.Path) { f.Need(len(s.CephFS.Monitors) > 0, at.Child("monitors")) }},
		{Name: "iscsi", Given: s.ISCSI != nil, Check: func(at *field.Path) {
			v := s.ISCSI
			podspec.CheckIscsi(f, v.TargetPortal, v.IQN, v.Lun, v.DiscoveryCHAPAuth || v.SessionCHAPAuth, v.SecretRef != nil, v.InitiatorName, at)
			f.Invalid(v.InitiatorName != nil && len(name+":"+v.TargetPortal) > 64, at.Child("targetportal"), v.TargetPortal,
				"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
			f.Need(v.SecretRef == nil || v.SecretRef.Name != "", at.Child("secretRef", "name"))
		}},
		{Name: "cinder", Given: s.Cinder != nil, Check: func(at *field.Path) {
			f.Text(s.Cinder.VolumeID, at.Child("volumeID"))
			if ref := s.Cinder.SecretRef; ref != nil {
				f.Text(ref.Name, at.Child("secretRef", "name"))
				f.Text(ref.Namespace, at.Child("secretRef", "namespace"))
			}
		}},
		{Name: "fc", Given: s.FC != nil, Check: func(at *field.Path) { podspec.CheckFibreChannel(f, s.FC, at) }},
		{Name: "flexVolume", Given: s.FlexVolume != nil, Beside: true, Check: func(at *field.Path) { podspec.CheckFlex(f, s.FlexVolume.Driver, s.FlexVolume.Options, at) }},
		{Name: "azureFile", Given: s.AzureFile != nil, Check: func(at *field.Path) {
			f.Text(s.AzureFile.SecretName, at.Child("secretName"))
			f.Text(s.AzureFile.ShareName, at.Child("shareName"))
			f.Need(s.AzureFile.SecretNamespace == nil || *s.AzureFile.SecretNamespace != "", at.Child("secretNamespace"))
		}},
		{Name: "vsphereVolume", Given: s.VsphereVolume != nil, Check: func(at *field.Path) { text(s.VsphereVolume.VolumePath, "volumePath")(at) }},
		{Name: "photonPersistentDisk", Given: s.PhotonPersistentDisk != nil, Check: func(at *field.Path) { text(s.PhotonPersistentDisk.PdID, "pdID")(at) }},
		{Name: "portworxVolume", Given: s.PortworxVolume != nil, Check: func(at *field.Path) { text(s.PortworxVolume.VolumeID, "volumeID")(at) }},
		{Name: "azureDisk", Given: s.AzureDisk != nil, Check: func(at *field.Path) { podspec.CheckAzureDisk(f, s.AzureDisk, at) }},
		{Name: "scaleIO", Given: s.ScaleIO != nil, Check: func(at *field.Path) {
			podspec.CheckScaleIO(f, s.ScaleIO.Gateway, s.ScaleIO.System, s.ScaleIO.VolumeName, at)
		}},
		{Name: "local", Given: s.Local != nil, Check: func(at *field.Path) {
			f.Need(s.NodeAffinity != nil, above.Child("nodeAffinity"))
			f.Text(s.Local.Path, at.Child("path"))
			podspec.CheckNoBacksteps(f, s.Local.Path, at.Child("path"))
		}},
		{Name: "storageos", Given: s.StorageOS != nil, Check: func(at *field.Path) {
			podspec.CheckStorageOS(f, s.StorageOS.VolumeName, s.StorageOS.VolumeNamespace, at)
			if ref := s.StorageOS.SecretRef; ref != nil {
				f.Text(ref.Name, at.Child("secretRef", "name"))
				f.Text(ref.Namespace, at.Child("secretRef", "namespace"))
			}
		}},
		{Name: "csi", Given: s.CSI != nil, Check: func(at *field.Path) {
			podspec.CheckCsiDriver(f, s.CSI.Driver, at.Child("driver"))
			f.Text(s.CSI.VolumeHandle, at.Child("volumeHandle"))
			podspec.CheckSecretReference(f, s.CSI.ControllerPublishSecretRef, at.Child("controllerPublishSecretRef"))
			podspec.CheckSecretReference(f, s.CSI.ControllerExpandSecretRef, at.Child("controllerExpandSecretRef"))
			podspec.CheckSecretReference(f, s.CSI.NodePublishSecretRef, at.Child("nodePublishSecretRef"))
			podspec.CheckSecretReference(f, s.CSI.NodeExpandSecretRef, at.Child("nodeExpandSecretRef"))
		}},
	}
}

func validatePersistentVolumeClaimStatus(pvc, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var f kind.Findings
	statuses, allocated := field.NewPath("status", "allocatedResourceStatuses"), field.NewPath("status", "allocatedResources")
	for name, size := range pvc.Status.Capacity {
		f.Invalid(size.Sign() < 0, field.NewPath("status", "capacity").Key(string(name)), size.Value(), "must be a valid resource quantity")
	}
	for name, status := range pvc.Status.AllocatedResourceStatuses {
		podspec.CheckClaimResource(&f, name, statuses)
		kind.Known(&f, status, statuses, corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
			corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible)
	}
	for name, size := range pvc.Status.AllocatedResources {
		podspec.CheckClaimResource(&f, name, allocated)
		f.Invalid(size.Sign() < 0, allocated.Key(string(name)), size.Value(), "must be a valid resource quantity")
	}
	return f.List
}
