// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// inlineOnly says where a field of a volume makes no sense.
const inlineOnly = "may not be specified in the context of inline volumes"

// validatePersistentVolume checks that there is one source and what it is good for. The source is kept.
func validatePersistentVolume(pv, old *corev1.PersistentVolume) field.ErrorList {
	f := faults{list: volumeSpec(&pv.Spec, pv.Name, false, specPath())}
	f.mountOptions(pv)
	if old == nil {
		return f.list
	}
	source := pv.Spec.PersistentVolumeSource
	if was := old.Spec.CSI; was != nil && was.ControllerExpandSecretRef == nil && source.CSI != nil {
		csi := *source.CSI // a secret for expansion may be added
		csi.ControllerExpandSecretRef = nil
		source.CSI = &csi
	}
	if !apiequality.Semantic.DeepEqual(source, old.Spec.PersistentVolumeSource) {
		f.forbid(true, specPath("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation\n"+
			diff.Diff(old.Spec.PersistentVolumeSource, source))
	}
	f.add(frozen(pv.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode")))
	if old.Spec.NodeAffinity != nil {
		f.add(frozen(pv.Spec.NodeAffinity, old.Spec.NodeAffinity, field.NewPath("nodeAffinity")))
	}
	f.forbid(old.Spec.VolumeAttributesClassName != nil && pv.Spec.VolumeAttributesClassName == nil, specPath("volumeAttributesClassName"),
		"update from non-nil value to nil is forbidden")
	return f.list
}

// volumeSpec checks a volume, or one that a VolumeAttachment has inline.
func volumeSpec(spec *corev1.PersistentVolumeSpec, name string, inline bool, at *field.Path) field.ErrorList {
	var f faults
	f.accessModes(spec.AccessModes, at.Child("accessModes"))
	if inline {
		f.forbid(spec.ClaimRef != nil, at.Child("claimRef"), inlineOnly)
		f.forbid(len(spec.Capacity) > 0, at.Child("capacity"), inlineOnly)
		f.need(spec.CSI != nil, at.Child("csi"))
		f.forbid(spec.PersistentVolumeReclaimPolicy != "" && spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain,
			at.Child("persistentVolumeReclaimPolicy"), "may only be Retain in the context of inline volumes")
		f.forbid(spec.NodeAffinity != nil, at.Child("nodeAffinity"), inlineOnly)
		f.forbid(spec.StorageClassName != "", at.Child("storageClassName"), inlineOnly)
		f.forbid(spec.VolumeMode != nil && *spec.VolumeMode != corev1.PersistentVolumeFilesystem, at.Child("volumeMode"),
			"may not specify volumeMode other than Filesystem in the context of inline volumes")
	} else {
		f.volume(spec, at)
	}
	f.exactlyOne(at, oneSource, someSource, volumeSources(&f, spec, name, at))
	f.forbid(spec.HostPath != nil && path.Clean(spec.HostPath.Path) == "/" && spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle,
		at.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'")
	if class := spec.VolumeAttributesClassName; class != nil {
		if f.text(*class, at.Child("volumeAttributesClassName")) {
			f.subdomain(*class, at.Child("volumeAttributesClassName"))
		}
		f.need(spec.CSI != nil, at.Child("csi"))
	}
	return f.list
}

// volume checks what only volumes of their own have.
func (f *faults) volume(spec *corev1.PersistentVolumeSpec, at *field.Path) {
	f.need(len(spec.Capacity) > 0, at.Child("capacity"))
	if _, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		f.list = append(f.list, field.NotSupported(at.Child("capacity"), spec.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for name, size := range spec.Capacity {
		f.invalid(size.Sign() <= 0, at.Child("capacity").Key(string(name)), size.String(), "must be greater than zero")
	}
	if spec.PersistentVolumeReclaimPolicy != "" {
		known(f, spec.PersistentVolumeReclaimPolicy, at.Child("persistentVolumeReclaimPolicy"),
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	if spec.NodeAffinity != nil {
		if f.need(spec.NodeAffinity.Required != nil, at.Child("nodeAffinity", "required")); spec.NodeAffinity.Required != nil {
			f.nodeSelector(spec.NodeAffinity.Required, true, at.Child("nodeAffinity", "required"))
		}
	}
	if spec.StorageClassName != "" {
		f.subdomain(spec.StorageClassName, at.Child("storageClassName"))
	}
	chosen(f, spec.VolumeMode, at.Child("volumeMode"), corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
}

// volumeSources has more than sixty lines because it is a list: a line or two for each source.
func volumeSources(f *faults, s *corev1.PersistentVolumeSpec, name string, above *field.Path) []alternative {
	text := func(value string, names ...string) func(at *field.Path) {
		return func(at *field.Path) { f.text(value, at.Child(names[0], names[1:]...)) }
	}
	return []alternative{
		{name: "hostPath", given: s.HostPath != nil, check: func(at *field.Path) { f.hostPath(s.HostPath, at) }},
		{name: "gcePersistentDisk", at: "persistentDisk", given: s.GCEPersistentDisk != nil, check: func(at *field.Path) { f.gceDisk(s.GCEPersistentDisk, at) }},
		{name: "awsElasticBlockStore", given: s.AWSElasticBlockStore != nil, check: func(at *field.Path) { f.awsDisk(s.AWSElasticBlockStore, at) }},
		{name: "glusterfs", given: s.Glusterfs != nil, check: func(at *field.Path) {
			f.gluster(s.Glusterfs.EndpointsName, s.Glusterfs.Path, at)
			if namespace := s.Glusterfs.EndpointsNamespace; namespace != nil {
				f.messages(apivalidation.ValidateNamespaceName(*namespace, false), *namespace, at.Child("endpointsNamespace"))
			}
		}},
		{name: "flocker", given: s.Flocker != nil, check: func(at *field.Path) { f.flocker(s.Flocker, at) }},
		{name: "nfs", given: s.NFS != nil, check: func(at *field.Path) { f.nfs(s.NFS, at) }},
		{name: "rbd", given: s.RBD != nil, check: func(at *field.Path) { f.rbd(s.RBD.CephMonitors, s.RBD.RBDImage, at) }},
		{name: "quobyte", given: s.Quobyte != nil, check: func(at *field.Path) { f.quobyte(s.Quobyte, at) }},
		{name: "cephFS", at: "cephfs", given: s.CephFS != nil, check: func(at *field.Path) { f.need(len(s.CephFS.Monitors) > 0, at.Child("monitors")) }},
		{name: "iscsi", given: s.ISCSI != nil, check: func(at *field.Path) {
			v := s.ISCSI
			f.iscsi(v.TargetPortal, v.IQN, v.Lun, v.DiscoveryCHAPAuth || v.SessionCHAPAuth, v.SecretRef != nil, v.InitiatorName, at)
			f.invalid(v.InitiatorName != nil && len(name+":"+v.TargetPortal) > 64, at.Child("targetportal"), v.TargetPortal,
				"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
			f.need(v.SecretRef == nil || v.SecretRef.Name != "", at.Child("secretRef", "name"))
		}},
		{name: "cinder", given: s.Cinder != nil, check: func(at *field.Path) {
			f.text(s.Cinder.VolumeID, at.Child("volumeID"))
			if ref := s.Cinder.SecretRef; ref != nil {
				f.text(ref.Name, at.Child("secretRef", "name"))
				f.text(ref.Namespace, at.Child("secretRef", "namespace"))
			}
		}},
		{name: "fc", given: s.FC != nil, check: func(at *field.Path) { f.fibreChannel(s.FC, at) }},
		{name: "flexVolume", given: s.FlexVolume != nil, beside: true, check: func(at *field.Path) { f.flex(s.FlexVolume.Driver, s.FlexVolume.Options, at) }},
		{name: "azureFile", given: s.AzureFile != nil, check: func(at *field.Path) {
			f.text(s.AzureFile.SecretName, at.Child("secretName"))
			f.text(s.AzureFile.ShareName, at.Child("shareName"))
			f.need(s.AzureFile.SecretNamespace == nil || *s.AzureFile.SecretNamespace != "", at.Child("secretNamespace"))
		}},
		{name: "vsphereVolume", given: s.VsphereVolume != nil, check: func(at *field.Path) { text(s.VsphereVolume.VolumePath, "volumePath")(at) }},
		{name: "photonPersistentDisk", given: s.PhotonPersistentDisk != nil, check: func(at *field.Path) { text(s.PhotonPersistentDisk.PdID, "pdID")(at) }},
		{name: "portworxVolume", given: s.PortworxVolume != nil, check: func(at *field.Path) { text(s.PortworxVolume.VolumeID, "volumeID")(at) }},
		{name: "azureDisk", given: s.AzureDisk != nil, check: func(at *field.Path) { f.azureDisk(s.AzureDisk, at) }},
		{name: "scaleIO", given: s.ScaleIO != nil, check: func(at *field.Path) { f.scaleIO(s.ScaleIO.Gateway, s.ScaleIO.System, s.ScaleIO.VolumeName, at) }},
		{name: "local", given: s.Local != nil, check: func(at *field.Path) {
			f.need(s.NodeAffinity != nil, above.Child("nodeAffinity"))
			f.text(s.Local.Path, at.Child("path"))
			f.noBacksteps(s.Local.Path, at.Child("path"))
		}},
		{name: "storageos", given: s.StorageOS != nil, check: func(at *field.Path) {
			f.storageOS(s.StorageOS.VolumeName, s.StorageOS.VolumeNamespace, at)
			if ref := s.StorageOS.SecretRef; ref != nil {
				f.text(ref.Name, at.Child("secretRef", "name"))
				f.text(ref.Namespace, at.Child("secretRef", "namespace"))
			}
		}},
		{name: "csi", given: s.CSI != nil, check: func(at *field.Path) {
			f.csiDriver(s.CSI.Driver, at.Child("driver"))
			f.text(s.CSI.VolumeHandle, at.Child("volumeHandle"))
			f.secretReference(s.CSI.ControllerPublishSecretRef, at.Child("controllerPublishSecretRef"))
			f.secretReference(s.CSI.ControllerExpandSecretRef, at.Child("controllerExpandSecretRef"))
			f.secretReference(s.CSI.NodePublishSecretRef, at.Child("nodePublishSecretRef"))
			f.secretReference(s.CSI.NodeExpandSecretRef, at.Child("nodeExpandSecretRef"))
		}},
	}
}

func (f *faults) accessModes(modes []corev1.PersistentVolumeAccessMode, at *field.Path) {
	f.need(len(modes) > 0, at)
	for _, mode := range modes {
		known(f, mode, at, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
	}
	others := func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadOnlyMany || mode == corev1.ReadWriteMany || mode == corev1.ReadWriteOnce
	}
	f.forbid(slices.Contains(modes, corev1.ReadWriteOncePod) && slices.ContainsFunc(modes, others), at,
		"may not use ReadWriteOncePod with other access modes")
}

// validateClaimSpec checks a claim, or a template for claims.
func validateClaimSpec(spec *corev1.PersistentVolumeClaimSpec, at *field.Path) field.ErrorList {
	var f faults
	f.accessModes(spec.AccessModes, at.Child("accessModes"))
	f.add(labelSelector(spec.Selector, at.Child("selector")))
	storage, ok := spec.Resources.Requests[corev1.ResourceStorage]
	size := at.Child("resources").Key(string(corev1.ResourceStorage))
	f.need(ok, size)
	f.invalid(ok && storage.Sign() <= 0, size, storage.String(), "must be greater than zero")
	for _, class := range []struct {
		name  string
		value *string
	}{{"storageClassName", spec.StorageClassName}, {"volumeAttributesClassName", spec.VolumeAttributesClassName}} {
		if class.value != nil && *class.value != "" {
			f.subdomain(*class.value, at.Child(class.name))
		}
	}
	chosen(&f, spec.VolumeMode, at.Child("volumeMode"), corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	if s := spec.DataSource; s != nil {
		f.dataSource(s.APIGroup, s.Kind, s.Name, at.Child("dataSource"))
	}
	ref := spec.DataSourceRef
	if ref == nil {
		return f.list
	}
	f.dataSource(ref.APIGroup, ref.Kind, ref.Name, at.Child("dataSourceRef"))
	elsewhere := ref.Namespace != nil && *ref.Namespace != ""
	if elsewhere {
		f.messages(apivalidation.ValidateNamespaceName(*ref.Namespace, false), *ref.Namespace, at.Child("dataSourceRef", "namespace"))
	}
	if s := spec.DataSource; s != nil {
		f.invalid(elsewhere, at, at.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified")
		same := reflect.DeepEqual(s.APIGroup, ref.APIGroup) && s.Kind == ref.Kind && s.Name == ref.Name
		f.invalid(!elsewhere && !same, at, at.Child("dataSource"), "must match dataSourceRef")
	}
	return f.list
}

func (f *faults) dataSource(group *string, kind, name string, at *field.Path) {
	f.text(name, at.Child("name"))
	f.text(kind, at.Child("kind"))
	if group == nil || *group == "" {
		f.invalid(kind != "PersistentVolumeClaim", at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
		return
	}
	f.subdomain(*group, at.Child("apiGroup"))
}

func validateVolumeAttachment(attachment, old *storagev1.VolumeAttachment) field.ErrorList {
	f := faults{}
	spec, at := &attachment.Spec, specPath()
	f.csiDriver(spec.Attacher, at.Child("attacher"))
	f.messages(apivalidation.NameIsDNSSubdomain(spec.NodeName, false), spec.NodeName, at.Child("nodeName"))
	source := at.Child("source")
	inline, named := spec.Source.InlineVolumeSpec, spec.Source.PersistentVolumeName
	switch {
	case inline == nil && named == nil:
		f.need(false, source)
	case inline != nil && named != nil:
		f.forbid(true, source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case named != nil:
		f.text(*named, source.Child("persistentVolumeName"))
		f.subdomain(*named, source.Child("persistentVolumeName"))
	default:
		f.add(volumeSpec(inline, "", true, source.Child("inlineVolumeSpec")))
	}
	f.add(attachmentStatus(&attachment.Status, field.NewPath("status")))
	if old != nil {
		f.invalid(!apiequality.Semantic.DeepEqual(*spec, old.Spec), at, *spec, "field is immutable")
	}
	return f.list
}

func attachmentStatus(status *storagev1.VolumeAttachmentStatus, at *field.Path) field.ErrorList {
	var f faults
	size := 0
	for key, value := range status.AttachmentMetadata {
		f.need(key != "", at.Child("attachmentMetadata").Key(key))
		size += len(key) + len(value)
	}
	if size > 256<<10 {
		f.list = append(f.list, field.TooLong(at.Child("attachmentMetadata"), "", 256<<10))
	}
	for _, e := range []struct {
		name string
		err  *storagev1.VolumeError
	}{{"attachError", status.AttachError}, {"detachError", status.DetachError}} {
		if e.err == nil {
			continue
		}
		if len(e.err.Message) > 1<<10 {
			f.list = append(f.list, field.TooLong(at.Child(e.name, "message"), "", 1<<10))
		}
		f.invalid(e.err.ErrorCode != nil && *e.err.ErrorCode < 0, at.Child(e.name, "errorCode"), e.err.ErrorCode, "must be greater than or equal to 0")
	}
	return f.list
}

// templateMetadata checks the metadata of what is made for something else: labels and annotations.
func (f *faults) templateMetadata(meta any, at *field.Path) {
	v := reflect.ValueOf(meta)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Labels" && name != "Annotations" {
			f.forbid(!v.Field(i).IsZero(), at.Child(strings.ToLower(name[:1])+name[1:]), "cannot be set")
		}
	}
}

func validateStorageClass(class, old *storagev1.StorageClass) field.ErrorList {
	var f faults
	if f.text(class.Provisioner, field.NewPath("provisioner")) {
		f.messages(validation.IsQualifiedName(strings.ToLower(class.Provisioner)), class.Provisioner, field.NewPath("provisioner"))
	}
	f.parameters(class.Parameters, field.NewPath("parameters"))
	if policy := class.ReclaimPolicy; policy != nil && *policy != "" {
		known(&f, *policy, field.NewPath("reclaimPolicy"), corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	mode := field.NewPath("volumeBindingMode")
	if f.need(class.VolumeBindingMode != nil, mode); class.VolumeBindingMode != nil {
		known(&f, *class.VolumeBindingMode, mode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	f.topologies(class.AllowedTopologies, field.NewPath("allowedTopologies"))
	if old != nil {
		f.add(frozen(class.Provisioner, old.Provisioner, field.NewPath("provisioner")))
		f.add(frozen(class.Parameters, old.Parameters, field.NewPath("parameters")))
		f.add(frozen(class.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy")))
		f.add(frozen(class.VolumeBindingMode, old.VolumeBindingMode, mode))
	}
	return f.list
}

// parameters checks what a class tells its driver.
func (f *faults) parameters(parameters map[string]string, at *field.Path) {
	size := 0
	for key, value := range parameters {
		f.invalid(key == "", at, key, "field can not be empty.")
		size += len(key) + len(value)
	}
	if len(parameters) > 512 {
		f.list = append(f.list, field.TooLong(at, "", 512))
	}
	if size > 256<<10 {
		f.list = append(f.list, field.TooLong(at, "", 256<<10))
	}
}

func (f *faults) topologies(terms []corev1.TopologySelectorTerm, at *field.Path) {
	for i, term := range terms {
		keys := sets.New[string]()
		for j, e := range term.MatchLabelExpressions {
			here := at.Index(i).Child("matchLabelExpressions").Index(j)
			f.need(len(e.Values) > 0, here.Child("values"))
			values := sets.New[string]()
			for k, value := range e.Values {
				f.unique(value, values, here.Child("values").Index(k))
			}
			f.add(metavalidation.ValidateLabelName(e.Key, here.Child("key")))
			f.unique(e.Key, keys, here.Child("key"))
		}
		for _, other := range terms[:i] {
			if apiequality.Semantic.DeepEqual(other, term) {
				f.list = append(f.list, field.Duplicate(at.Index(i).Child("matchLabelExpressions"), ""))
				break
			}
		}
	}
}

func validateVolumeAttachmentStatus(attachment, _ *storagev1.VolumeAttachment) field.ErrorList {
	return attachmentStatus(&attachment.Status, field.NewPath("status"))
}

func validatePersistentVolumeClaimStatus(pvc, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var f faults
	statuses, allocated := field.NewPath("status", "allocatedResourceStatuses"), field.NewPath("status", "allocatedResources")
	for name, size := range pvc.Status.Capacity {
		f.invalid(size.Sign() < 0, field.NewPath("status", "capacity").Key(string(name)), size.Value(), "must be a valid resource quantity")
	}
	for name, status := range pvc.Status.AllocatedResourceStatuses {
		f.claimResource(name, statuses)
		known(&f, status, statuses, corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
			corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible)
	}
	for name, size := range pvc.Status.AllocatedResources {
		f.claimResource(name, allocated)
		f.invalid(size.Sign() < 0, allocated.Key(string(name)), size.Value(), "must be a valid resource quantity")
	}
	return f.list
}

// claimResource checks the name of what a claim can have: storage, and what is not of Kubernetes.
func (f *faults) claimResource(name corev1.ResourceName, at *field.Path) {
	wrong := validation.IsQualifiedName(string(name))
	if f.messages(wrong, name, at); len(wrong) == 0 && isNative(name) {
		known(f, name, at, corev1.ResourceStorage)
	}
}
