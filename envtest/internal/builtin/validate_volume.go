// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"net"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	oneSource  = "may not specify more than 1 volume type"
	someSource = "must specify a volume type"
	fileMode   = "must be a number between 0 and 0777 (octal), both inclusive"
)

// podVolumes are the volumes of a Pod by name, as far as their names are in order.
type podVolumes map[string]*corev1.VolumeSource

// validateVolumes checks the volumes of a Pod or a template and returns those with valid names.
func validateVolumes(volumes []corev1.Volume, at *field.Path) (podVolumes, field.ErrorList) {
	named := podVolumes{}
	var f faults
	seen := sets.New[string]()
	for i := range volumes {
		volume := &volumes[i]
		f.add(validateVolumeSource(&volume.VolumeSource, volume.Name, at.Index(i)))
		wrong := uniqueLabel(volume.Name, seen, at.Index(i).Child("name"))
		if f.add(wrong); len(wrong) == 0 {
			named[volume.Name] = &volume.VolumeSource
		}
	}
	return named, f.list
}

// validateVolumeSource has more than sixty lines because it is a list: a line or two for each source.
func validateVolumeSource(s *corev1.VolumeSource, name string, at *field.Path) field.ErrorList {
	var f faults
	f.exactlyOne(at, oneSource, someSource, []alternative{
		{name: "emptyDir", given: s.EmptyDir != nil, check: func(at *field.Path) {
			limit := s.EmptyDir.SizeLimit
			f.forbid(limit != nil && limit.Sign() < 0, at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")
		}},
		{name: "hostPath", given: s.HostPath != nil, check: func(at *field.Path) { f.hostPath(s.HostPath, at) }},
		{name: "gitRepo", given: s.GitRepo != nil, check: func(at *field.Path) {
			f.text(s.GitRepo.Repository, at.Child("repository"))
			f.descending(s.GitRepo.Directory, at.Child("directory"))
		}},
		{name: "gcePersistentDisk", at: "persistentDisk", given: s.GCEPersistentDisk != nil, check: func(at *field.Path) { f.gceDisk(s.GCEPersistentDisk, at) }},
		{name: "awsElasticBlockStore", given: s.AWSElasticBlockStore != nil, check: func(at *field.Path) { f.awsDisk(s.AWSElasticBlockStore, at) }},
		{name: "secret", given: s.Secret != nil, check: func(at *field.Path) {
			f.text(s.Secret.SecretName, at.Child("secretName"))
			f.files(s.Secret.DefaultMode, s.Secret.Items, at)
		}},
		{name: "nfs", given: s.NFS != nil, check: func(at *field.Path) { f.nfs(s.NFS, at) }},
		{name: "iscsi", given: s.ISCSI != nil, check: func(at *field.Path) {
			v := s.ISCSI
			f.iscsi(v.TargetPortal, v.IQN, v.Lun, v.DiscoveryCHAPAuth || v.SessionCHAPAuth, v.SecretRef != nil, v.InitiatorName, at)
		}},
		{name: "glusterfs", given: s.Glusterfs != nil, check: func(at *field.Path) { f.gluster(s.Glusterfs.EndpointsName, s.Glusterfs.Path, at) }},
		{name: "flocker", given: s.Flocker != nil, check: func(at *field.Path) { f.flocker(s.Flocker, at) }},
		{name: "persistentVolumeClaim", given: s.PersistentVolumeClaim != nil, check: func(at *field.Path) {
			f.text(s.PersistentVolumeClaim.ClaimName, at.Child("claimName"))
		}},
		{name: "rbd", given: s.RBD != nil, check: func(at *field.Path) { f.rbd(s.RBD.CephMonitors, s.RBD.RBDImage, at) }},
		{name: "cinder", given: s.Cinder != nil, check: func(at *field.Path) {
			f.text(s.Cinder.VolumeID, at.Child("volumeID"))
			f.secretName(s.Cinder.SecretRef, at)
		}},
		{name: "cephFS", at: "cephfs", given: s.CephFS != nil, check: func(at *field.Path) { f.need(len(s.CephFS.Monitors) > 0, at.Child("monitors")) }},
		{name: "quobyte", given: s.Quobyte != nil, check: func(at *field.Path) { f.quobyte(s.Quobyte, at) }},
		{name: "downwarAPI", at: "downwardAPI", given: s.DownwardAPI != nil, check: func(at *field.Path) {
			f.mode(s.DownwardAPI.DefaultMode, at.Child("defaultMode"))
			for i := range s.DownwardAPI.Items {
				f.downwardFile(&s.DownwardAPI.Items[i], at)
			}
		}},
		{name: "fc", given: s.FC != nil, check: func(at *field.Path) { f.fibreChannel(s.FC, at) }},
		{name: "flexVolume", given: s.FlexVolume != nil, check: func(at *field.Path) { f.flex(s.FlexVolume.Driver, s.FlexVolume.Options, at) }},
		{name: "configMap", given: s.ConfigMap != nil, check: func(at *field.Path) {
			f.text(s.ConfigMap.Name, at.Child("name"))
			f.files(s.ConfigMap.DefaultMode, s.ConfigMap.Items, at)
		}},
		{name: "azureFile", given: s.AzureFile != nil, check: func(at *field.Path) {
			f.text(s.AzureFile.SecretName, at.Child("secretName"))
			f.text(s.AzureFile.ShareName, at.Child("shareName"))
		}},
		{name: "vsphereVolume", given: s.VsphereVolume != nil, check: func(at *field.Path) { f.text(s.VsphereVolume.VolumePath, at.Child("volumePath")) }},
		{name: "photonPersistentDisk", given: s.PhotonPersistentDisk != nil, check: func(at *field.Path) { f.text(s.PhotonPersistentDisk.PdID, at.Child("pdID")) }},
		{name: "portworxVolume", given: s.PortworxVolume != nil, check: func(at *field.Path) { f.text(s.PortworxVolume.VolumeID, at.Child("volumeID")) }},
		{name: "azureDisk", given: s.AzureDisk != nil, check: func(at *field.Path) { f.azureDisk(s.AzureDisk, at) }},
		{name: "storageos", given: s.StorageOS != nil, check: func(at *field.Path) {
			f.storageOS(s.StorageOS.VolumeName, s.StorageOS.VolumeNamespace, at)
			f.secretName(s.StorageOS.SecretRef, at)
		}},
		{name: "projected", given: s.Projected != nil, check: func(at *field.Path) { f.projected(s.Projected, at) }},
		{name: "scaleIO", given: s.ScaleIO != nil, check: func(at *field.Path) { f.scaleIO(s.ScaleIO.Gateway, s.ScaleIO.System, s.ScaleIO.VolumeName, at) }},
		{name: "csi", given: s.CSI != nil, check: func(at *field.Path) {
			f.csiDriver(s.CSI.Driver, at.Child("driver"))
			if ref := s.CSI.NodePublishSecretRef; ref != nil && f.text(ref.Name, at.Child("nodePublishSecretRef", "name")) {
				f.subdomain(ref.Name, at.Child("name"))
			}
		}},
		{name: "ephemeral", given: s.Ephemeral != nil, check: func(at *field.Path) {
			claim := s.Ephemeral.VolumeClaimTemplate
			if f.need(claim != nil, at.Child("volumeClaimTemplate")); claim != nil {
				f.add(validateClaimTemplate(claim, at.Child("volumeClaimTemplate")))
			}
		}},
		{name: "image", given: s.Image != nil, check: func(at *field.Path) {
			f.need(s.Image.Reference != "", at.Child("reference"))
			choice(&f, s.Image.PullPolicy, at.Child("pullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
		}},
	})
	if v := s.ISCSI; v != nil {
		f.invalid(v.InitiatorName != nil && len(name+":"+v.TargetPortal) > 64, at.Child("name"), name,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
	}
	return f.list
}

func (f *faults) hostPath(v *corev1.HostPathVolumeSource, at *field.Path) {
	if !f.text(v.Path, at.Child("path")) {
		return
	}
	f.noBacksteps(v.Path, at.Child("path"))
	chosen(f, v.Type, at.Child("type"), corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
		corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)
}

func (f *faults) gceDisk(v *corev1.GCEPersistentDiskVolumeSource, at *field.Path) {
	f.text(v.PDName, at.Child("pdName"))
	f.within(int64(v.Partition), 0, 255, at.Child("partition"))
}

func (f *faults) awsDisk(v *corev1.AWSElasticBlockStoreVolumeSource, at *field.Path) {
	f.text(v.VolumeID, at.Child("volumeID"))
	f.within(int64(v.Partition), 0, 255, at.Child("partition"))
}

func (f *faults) nfs(v *corev1.NFSVolumeSource, at *field.Path) {
	f.text(v.Server, at.Child("server"))
	f.text(v.Path, at.Child("path"))
	f.invalid(!path.IsAbs(v.Path), at.Child("path"), v.Path, "must be an absolute path")
}

// The names of iSCSI initiators and targets, of RFC 3720 and RFC 3980.
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`^iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui\.[[:xdigit:]]{16}$`),
	"naa": regexp.MustCompile(`^naa\.[[:xdigit:]]{32}$`),
}

func (f *faults) iscsiName(name string, at *field.Path) {
	rule := iscsiNames[name[:min(3, len(name))]]
	f.invalid(rule == nil || !rule.MatchString(name), at, name, "must be valid format")
}

func (f *faults) iscsi(portal, iqn string, lun int32, authenticated, secret bool, initiator *string, at *field.Path) {
	f.text(portal, at.Child("targetPortal"))
	if f.text(iqn, at.Child("iqn")) {
		f.iscsiName(iqn, at.Child("iqn"))
	}
	f.within(int64(lun), 0, 255, at.Child("lun"))
	f.need(!authenticated || secret, at.Child("secretRef"))
	if initiator != nil {
		f.iscsiName(*initiator, at.Child("initiatorname"))
	}
}

func (f *faults) gluster(endpoints, path string, at *field.Path) {
	f.text(endpoints, at.Child("endpoints"))
	f.text(path, at.Child("path"))
}

func (f *faults) flocker(v *corev1.FlockerVolumeSource, at *field.Path) {
	f.need(v.DatasetName != "" || v.DatasetUUID != "", at)
	f.invalid(v.DatasetName != "" && v.DatasetUUID != "", at, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	f.invalid(strings.Contains(v.DatasetName, "/"), at.Child("datasetName"), v.DatasetName, "must not contain '/'")
}

func (f *faults) rbd(monitors []string, image string, at *field.Path) {
	f.need(len(monitors) > 0, at.Child("monitors"))
	f.text(image, at.Child("image"))
}

func (f *faults) secretName(ref *corev1.LocalObjectReference, at *field.Path) {
	if ref != nil {
		f.text(ref.Name, at.Child("secretRef", "name"))
	}
}

func (f *faults) quobyte(v *corev1.QuobyteVolumeSource, at *field.Path) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	if f.text(v.Registry, at.Child("registry")) {
		f.need(len(v.Tenant) < 65, at.Child("tenant"))
		for _, pair := range strings.Split(v.Registry, ",") {
			_, _, err := net.SplitHostPort(pair)
			f.invalid(err != nil, at.Child("registry"), v.Registry, pairs)
		}
	}
	f.text(v.Volume, at.Child("volume"))
}

func (f *faults) fibreChannel(v *corev1.FCVolumeSource, at *field.Path) {
	targets := at.Child("targetWWNs")
	f.need(len(v.TargetWWNs)+len(v.WWIDs) > 0, targets)
	f.invalid(len(v.TargetWWNs) > 0 && len(v.WWIDs) > 0, targets, v.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	if len(v.TargetWWNs) == 0 {
		return
	}
	if f.need(v.Lun != nil, at.Child("lun")); v.Lun != nil {
		f.within(int64(*v.Lun), 0, 255, at.Child("lun"))
	}
}

func (f *faults) flex(driver string, options map[string]string, at *field.Path) {
	f.text(driver, at.Child("driver"))
	for key := range options {
		namespace, _, _ := strings.Cut(key, "/")
		namespace = "." + strings.ToLower(namespace)
		f.invalid(strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io"), at.Child("options").Key(key), key,
			"kubernetes.io and k8s.io namespaces are reserved")
	}
}

func (f *faults) azureDisk(v *corev1.AzureDiskVolumeSource, at *field.Path) {
	f.text(v.DiskName, at.Child("diskName"))
	uri := at.Child("diskURI")
	f.text(v.DataDiskURI, uri)
	chosen(f, v.CachingMode, at.Child("cachingMode"), corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	chosen(f, v.Kind, at.Child("kind"), corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)
	if v.Kind == nil {
		return
	}
	prefix, example := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *v.Kind == corev1.AzureManagedDisk {
		prefix, example = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(v.DataDiskURI, prefix) {
		f.list = append(f.list, field.NotSupported(uri, v.DataDiskURI, []string{example}))
	}
}

func (f *faults) storageOS(name, namespace string, at *field.Path) {
	if f.text(name, at.Child("volumeName")) {
		f.label(name, at.Child("volumeName"))
	}
	if namespace != "" {
		f.label(namespace, at.Child("volumeNamespace"))
	}
}

func (f *faults) scaleIO(gateway, system, volume string, at *field.Path) {
	f.text(gateway, at.Child("gateway"))
	f.text(system, at.Child("system"))
	f.text(volume, at.Child("volumeName"))
}

// csiDriver checks the name of a driver, in which case is of no account.
func (f *faults) csiDriver(name string, at *field.Path) {
	if !f.text(name, at) {
		return
	}
	if len(name) > 63 {
		f.list = append(f.list, field.TooLong(at, "", 63))
	}
	f.messages(validation.IsDNS1123Subdomain(strings.ToLower(name)), name, at)
}

// mode checks the permissions of a file.
func (f *faults) mode(mode *int32, at *field.Path) {
	if mode != nil {
		f.invalid(*mode < 0 || *mode > 0o777, at, *mode, fileMode)
	}
}

// files checks how the keys of a Secret or a ConfigMap become files.
func (f *faults) files(mode *int32, items []corev1.KeyToPath, at *field.Path) {
	f.mode(mode, at.Child("defaultMode"))
	for i := range items {
		f.keyToPath(&items[i], at.Child("items").Index(i))
	}
}

func (f *faults) keyToPath(item *corev1.KeyToPath, at *field.Path) {
	f.text(item.Key, at.Child("key"))
	f.text(item.Path, at.Child("path"))
	f.localPath(item.Path, at.Child("path"))
	f.mode(item.Mode, at.Child("mode"))
}

// noBacksteps refuses paths that lead upwards.
func (f *faults) noBacksteps(target string, at *field.Path) {
	for _, part := range strings.Split(target, "/") {
		if part == ".." {
			f.invalid(true, at, target, "must not contain '..'")
			return
		}
	}
}

// descending checks a path below another one.
func (f *faults) descending(target string, at *field.Path) {
	f.invalid(path.IsAbs(target), at, target, "must be a relative path")
	f.noBacksteps(target, at)
}

// localPath checks a path that a kubelet writes in a volume.
func (f *faults) localPath(target string, at *field.Path) {
	f.descending(target, at)
	f.invalid(strings.HasPrefix(target, "..") && !strings.HasPrefix(target, "../"), at, target, "must not start with '..'")
}

// secretReference checks a reference to a Secret of any namespace.
func (f *faults) secretReference(ref *corev1.SecretReference, at *field.Path) {
	if ref == nil {
		return
	}
	if f.text(ref.Name, at.Child("name")) {
		f.subdomain(ref.Name, at.Child("name"))
	}
	if f.text(ref.Namespace, at.Child("namespace")) {
		f.label(ref.Namespace, at.Child("namespace"))
	}
}

// validateClaimTemplate checks a claim that is made for a Pod.
func validateClaimTemplate(claim *corev1.PersistentVolumeClaimTemplate, at *field.Path) field.ErrorList {
	var f faults
	f.add(apivalidation.ValidateAnnotations(claim.Annotations, at.Child("metadata", "annotations")))
	f.add(metavalidation.ValidateLabels(claim.Labels, at.Child("metadata", "labels")))
	f.templateMetadata(claim.ObjectMeta, at.Child("metadata"))
	f.add(validateClaimSpec(&claim.Spec, at.Child("spec")))
	return f.list
}
