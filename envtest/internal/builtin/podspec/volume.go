// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

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

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

const (
	OneSource  = "may not specify more than 1 volume type"
	SomeSource = "must specify a volume type"
	fileMode   = "must be a number between 0 and 0777 (octal), both inclusive"
)

// podVolumes are the volumes of a Pod by name, as far as their names are in order.
type podVolumes map[string]*corev1.VolumeSource

// validateVolumes checks the volumes of a Pod or a template and returns those with valid names.
func validateVolumes(volumes []corev1.Volume, at *field.Path) (podVolumes, field.ErrorList) {
	named := podVolumes{}
	var f kind.Findings
	seen := sets.New[string]()
	for i := range volumes {
		volume := &volumes[i]
		f.Add(validateVolumeSource(&volume.VolumeSource, volume.Name, at.Index(i)))
		wrong := kind.UniqueLabel(volume.Name, seen, at.Index(i).Child("name"))
		if f.Add(wrong); len(wrong) == 0 {
			named[volume.Name] = &volume.VolumeSource
		}
	}
	return named, f.List
}

// validateVolumeSource has more than sixty lines because it is a list: a line or two for each source.
func validateVolumeSource(s *corev1.VolumeSource, name string, at *field.Path) field.ErrorList {
	var f kind.Findings
	f.ExactlyOne(at, OneSource, SomeSource, []kind.Alternative{
		{Name: "emptyDir", Given: s.EmptyDir != nil, Check: func(at *field.Path) {
			limit := s.EmptyDir.SizeLimit
			f.Forbid(limit != nil && limit.Sign() < 0, at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")
		}},
		{Name: "hostPath", Given: s.HostPath != nil, Check: func(at *field.Path) { CheckHostPath(&f, s.HostPath, at) }},
		{Name: "gitRepo", Given: s.GitRepo != nil, Check: func(at *field.Path) {
			f.Text(s.GitRepo.Repository, at.Child("repository"))
			checkDescending(&f, s.GitRepo.Directory, at.Child("directory"))
		}},
		{Name: "gcePersistentDisk", At: "persistentDisk", Given: s.GCEPersistentDisk != nil, Check: func(at *field.Path) { CheckGceDisk(&f, s.GCEPersistentDisk, at) }},
		{Name: "awsElasticBlockStore", Given: s.AWSElasticBlockStore != nil, Check: func(at *field.Path) { CheckAwsDisk(&f, s.AWSElasticBlockStore, at) }},
		{Name: "secret", Given: s.Secret != nil, Check: func(at *field.Path) {
			f.Text(s.Secret.SecretName, at.Child("secretName"))
			checkFiles(&f, s.Secret.DefaultMode, s.Secret.Items, at)
		}},
		{Name: "nfs", Given: s.NFS != nil, Check: func(at *field.Path) { CheckNfs(&f, s.NFS, at) }},
		{Name: "iscsi", Given: s.ISCSI != nil, Check: func(at *field.Path) {
			v := s.ISCSI
			CheckIscsi(&f, v.TargetPortal, v.IQN, v.Lun, v.DiscoveryCHAPAuth || v.SessionCHAPAuth, v.SecretRef != nil, v.InitiatorName, at)
		}},
		{Name: "glusterfs", Given: s.Glusterfs != nil, Check: func(at *field.Path) { CheckGluster(&f, s.Glusterfs.EndpointsName, s.Glusterfs.Path, at) }},
		{Name: "flocker", Given: s.Flocker != nil, Check: func(at *field.Path) { CheckFlocker(&f, s.Flocker, at) }},
		{Name: "persistentVolumeClaim", Given: s.PersistentVolumeClaim != nil, Check: func(at *field.Path) {
			f.Text(s.PersistentVolumeClaim.ClaimName, at.Child("claimName"))
		}},
		{Name: "rbd", Given: s.RBD != nil, Check: func(at *field.Path) { CheckRbd(&f, s.RBD.CephMonitors, s.RBD.RBDImage, at) }},
		{Name: "cinder", Given: s.Cinder != nil, Check: func(at *field.Path) {
			f.Text(s.Cinder.VolumeID, at.Child("volumeID"))
			checkSecretName(&f, s.Cinder.SecretRef, at)
		}},
		{Name: "cephFS", At: "cephfs", Given: s.CephFS != nil, Check: func(at *field.Path) { f.Need(len(s.CephFS.Monitors) > 0, at.Child("monitors")) }},
		{Name: "quobyte", Given: s.Quobyte != nil, Check: func(at *field.Path) { CheckQuobyte(&f, s.Quobyte, at) }},
		{Name: "downwarAPI", At: "downwardAPI", Given: s.DownwardAPI != nil, Check: func(at *field.Path) {
			checkMode(&f, s.DownwardAPI.DefaultMode, at.Child("defaultMode"))
			for i := range s.DownwardAPI.Items {
				checkDownwardFile(&f, &s.DownwardAPI.Items[i], at)
			}
		}},
		{Name: "fc", Given: s.FC != nil, Check: func(at *field.Path) { CheckFibreChannel(&f, s.FC, at) }},
		{Name: "flexVolume", Given: s.FlexVolume != nil, Check: func(at *field.Path) { CheckFlex(&f, s.FlexVolume.Driver, s.FlexVolume.Options, at) }},
		{Name: "configMap", Given: s.ConfigMap != nil, Check: func(at *field.Path) {
			f.Text(s.ConfigMap.Name, at.Child("name"))
			checkFiles(&f, s.ConfigMap.DefaultMode, s.ConfigMap.Items, at)
		}},
		{Name: "azureFile", Given: s.AzureFile != nil, Check: func(at *field.Path) {
			f.Text(s.AzureFile.SecretName, at.Child("secretName"))
			f.Text(s.AzureFile.ShareName, at.Child("shareName"))
		}},
		{Name: "vsphereVolume", Given: s.VsphereVolume != nil, Check: func(at *field.Path) { f.Text(s.VsphereVolume.VolumePath, at.Child("volumePath")) }},
		{Name: "photonPersistentDisk", Given: s.PhotonPersistentDisk != nil, Check: func(at *field.Path) { f.Text(s.PhotonPersistentDisk.PdID, at.Child("pdID")) }},
		{Name: "portworxVolume", Given: s.PortworxVolume != nil, Check: func(at *field.Path) { f.Text(s.PortworxVolume.VolumeID, at.Child("volumeID")) }},
		{Name: "azureDisk", Given: s.AzureDisk != nil, Check: func(at *field.Path) { CheckAzureDisk(&f, s.AzureDisk, at) }},
		{Name: "storageos", Given: s.StorageOS != nil, Check: func(at *field.Path) {
			CheckStorageOS(&f, s.StorageOS.VolumeName, s.StorageOS.VolumeNamespace, at)
			checkSecretName(&f, s.StorageOS.SecretRef, at)
		}},
		{Name: "projected", Given: s.Projected != nil, Check: func(at *field.Path) { checkProjected(&f, s.Projected, at) }},
		{Name: "scaleIO", Given: s.ScaleIO != nil, Check: func(at *field.Path) { CheckScaleIO(&f, s.ScaleIO.Gateway, s.ScaleIO.System, s.ScaleIO.VolumeName, at) }},
		{Name: "csi", Given: s.CSI != nil, Check: func(at *field.Path) {
			CheckCsiDriver(&f, s.CSI.Driver, at.Child("driver"))
			if ref := s.CSI.NodePublishSecretRef; ref != nil && f.Text(ref.Name, at.Child("nodePublishSecretRef", "name")) {
				f.Subdomain(ref.Name, at.Child("name"))
			}
		}},
		{Name: "ephemeral", Given: s.Ephemeral != nil, Check: func(at *field.Path) {
			claim := s.Ephemeral.VolumeClaimTemplate
			if f.Need(claim != nil, at.Child("volumeClaimTemplate")); claim != nil {
				f.Add(validateClaimTemplate(claim, at.Child("volumeClaimTemplate")))
			}
		}},
		{Name: "image", Given: s.Image != nil, Check: func(at *field.Path) {
			f.Need(s.Image.Reference != "", at.Child("reference"))
			kind.Choice(&f, s.Image.PullPolicy, at.Child("pullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
		}},
	})
	if v := s.ISCSI; v != nil {
		f.Invalid(v.InitiatorName != nil && len(name+":"+v.TargetPortal) > 64, at.Child("name"), name,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
	}
	return f.List
}

func CheckHostPath(f *kind.Findings, v *corev1.HostPathVolumeSource, at *field.Path) {
	if !f.Text(v.Path, at.Child("path")) {
		return
	}
	CheckNoBacksteps(f, v.Path, at.Child("path"))
	kind.Chosen(f, v.Type, at.Child("type"), corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
		corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)
}

func CheckGceDisk(f *kind.Findings, v *corev1.GCEPersistentDiskVolumeSource, at *field.Path) {
	f.Text(v.PDName, at.Child("pdName"))
	f.Within(int64(v.Partition), 0, 255, at.Child("partition"))
}

func CheckAwsDisk(f *kind.Findings, v *corev1.AWSElasticBlockStoreVolumeSource, at *field.Path) {
	f.Text(v.VolumeID, at.Child("volumeID"))
	f.Within(int64(v.Partition), 0, 255, at.Child("partition"))
}

func CheckNfs(f *kind.Findings, v *corev1.NFSVolumeSource, at *field.Path) {
	f.Text(v.Server, at.Child("server"))
	f.Text(v.Path, at.Child("path"))
	f.Invalid(!path.IsAbs(v.Path), at.Child("path"), v.Path, "must be an absolute path")
}

// The names of iSCSI initiators and targets, of RFC 3720 and RFC 3980.
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`^iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui\.[[:xdigit:]]{16}$`),
	"naa": regexp.MustCompile(`^naa\.[[:xdigit:]]{32}$`),
}

func checkIscsiName(f *kind.Findings, name string, at *field.Path) {
	rule := iscsiNames[name[:min(3, len(name))]]
	f.Invalid(rule == nil || !rule.MatchString(name), at, name, "must be valid format")
}

func CheckIscsi(f *kind.Findings, portal, iqn string, lun int32, authenticated, secret bool, initiator *string, at *field.Path) {
	f.Text(portal, at.Child("targetPortal"))
	if f.Text(iqn, at.Child("iqn")) {
		checkIscsiName(f, iqn, at.Child("iqn"))
	}
	f.Within(int64(lun), 0, 255, at.Child("lun"))
	f.Need(!authenticated || secret, at.Child("secretRef"))
	if initiator != nil {
		checkIscsiName(f, *initiator, at.Child("initiatorname"))
	}
}

func CheckGluster(f *kind.Findings, endpoints, path string, at *field.Path) {
	f.Text(endpoints, at.Child("endpoints"))
	f.Text(path, at.Child("path"))
}

func CheckFlocker(f *kind.Findings, v *corev1.FlockerVolumeSource, at *field.Path) {
	f.Need(v.DatasetName != "" || v.DatasetUUID != "", at)
	f.Invalid(v.DatasetName != "" && v.DatasetUUID != "", at, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	f.Invalid(strings.Contains(v.DatasetName, "/"), at.Child("datasetName"), v.DatasetName, "must not contain '/'")
}

func CheckRbd(f *kind.Findings, monitors []string, image string, at *field.Path) {
	f.Need(len(monitors) > 0, at.Child("monitors"))
	f.Text(image, at.Child("image"))
}

func checkSecretName(f *kind.Findings, ref *corev1.LocalObjectReference, at *field.Path) {
	if ref != nil {
		f.Text(ref.Name, at.Child("secretRef", "name"))
	}
}

func CheckQuobyte(f *kind.Findings, v *corev1.QuobyteVolumeSource, at *field.Path) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	if f.Text(v.Registry, at.Child("registry")) {
		f.Need(len(v.Tenant) < 65, at.Child("tenant"))
		for _, pair := range strings.Split(v.Registry, ",") {
			_, _, err := net.SplitHostPort(pair)
			f.Invalid(err != nil, at.Child("registry"), v.Registry, pairs)
		}
	}
	f.Text(v.Volume, at.Child("volume"))
}

func CheckFibreChannel(f *kind.Findings, v *corev1.FCVolumeSource, at *field.Path) {
	targets := at.Child("targetWWNs")
	f.Need(len(v.TargetWWNs)+len(v.WWIDs) > 0, targets)
	f.Invalid(len(v.TargetWWNs) > 0 && len(v.WWIDs) > 0, targets, v.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	if len(v.TargetWWNs) == 0 {
		return
	}
	if f.Need(v.Lun != nil, at.Child("lun")); v.Lun != nil {
		f.Within(int64(*v.Lun), 0, 255, at.Child("lun"))
	}
}

func CheckFlex(f *kind.Findings, driver string, options map[string]string, at *field.Path) {
	f.Text(driver, at.Child("driver"))
	for key := range options {
		namespace, _, _ := strings.Cut(key, "/")
		namespace = "." + strings.ToLower(namespace)
		f.Invalid(strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io"), at.Child("options").Key(key), key,
			"kubernetes.io and k8s.io namespaces are reserved")
	}
}

func CheckAzureDisk(f *kind.Findings, v *corev1.AzureDiskVolumeSource, at *field.Path) {
	f.Text(v.DiskName, at.Child("diskName"))
	uri := at.Child("diskURI")
	f.Text(v.DataDiskURI, uri)
	kind.Chosen(f, v.CachingMode, at.Child("cachingMode"), corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	kind.Chosen(f, v.Kind, at.Child("kind"), corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)
	if v.Kind == nil {
		return
	}
	prefix, example := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *v.Kind == corev1.AzureManagedDisk {
		prefix, example = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(v.DataDiskURI, prefix) {
		f.List = append(f.List, field.NotSupported(uri, v.DataDiskURI, []string{example}))
	}
}

func CheckStorageOS(f *kind.Findings, name, namespace string, at *field.Path) {
	if f.Text(name, at.Child("volumeName")) {
		f.Label(name, at.Child("volumeName"))
	}
	if namespace != "" {
		f.Label(namespace, at.Child("volumeNamespace"))
	}
}

func CheckScaleIO(f *kind.Findings, gateway, system, volume string, at *field.Path) {
	f.Text(gateway, at.Child("gateway"))
	f.Text(system, at.Child("system"))
	f.Text(volume, at.Child("volumeName"))
}

// CheckCsiDriver checks the name of a driver, in which case is of no account.
func CheckCsiDriver(f *kind.Findings, name string, at *field.Path) {
	if !f.Text(name, at) {
		return
	}
	if len(name) > 63 {
		f.List = append(f.List, field.TooLong(at, "", 63))
	}
	f.Messages(validation.IsDNS1123Subdomain(strings.ToLower(name)), name, at)
}

// checkMode checks the permissions of a file.
func checkMode(f *kind.Findings, mode *int32, at *field.Path) {
	if mode != nil {
		f.Invalid(*mode < 0 || *mode > 0o777, at, *mode, fileMode)
	}
}

// checkFiles checks how the keys of a Secret or a ConfigMap become files.
func checkFiles(f *kind.Findings, mode *int32, items []corev1.KeyToPath, at *field.Path) {
	checkMode(f, mode, at.Child("defaultMode"))
	for i := range items {
		checkKeyToPath(f, &items[i], at.Child("items").Index(i))
	}
}

func checkKeyToPath(f *kind.Findings, item *corev1.KeyToPath, at *field.Path) {
	f.Text(item.Key, at.Child("key"))
	f.Text(item.Path, at.Child("path"))
	checkLocalPath(f, item.Path, at.Child("path"))
	checkMode(f, item.Mode, at.Child("mode"))
}

// CheckNoBacksteps refuses paths that lead upwards.
func CheckNoBacksteps(f *kind.Findings, target string, at *field.Path) {
	for _, part := range strings.Split(target, "/") {
		if part == ".." {
			f.Invalid(true, at, target, "must not contain '..'")
			return
		}
	}
}

// checkDescending checks a path below another one.
func checkDescending(f *kind.Findings, target string, at *field.Path) {
	f.Invalid(path.IsAbs(target), at, target, "must be a relative path")
	CheckNoBacksteps(f, target, at)
}

// checkLocalPath checks a path that a kubelet writes in a volume.
func checkLocalPath(f *kind.Findings, target string, at *field.Path) {
	checkDescending(f, target, at)
	f.Invalid(strings.HasPrefix(target, "..") && !strings.HasPrefix(target, "../"), at, target, "must not start with '..'")
}

// CheckSecretReference checks a reference to a Secret of any namespace.
func CheckSecretReference(f *kind.Findings, ref *corev1.SecretReference, at *field.Path) {
	if ref == nil {
		return
	}
	if f.Text(ref.Name, at.Child("name")) {
		f.Subdomain(ref.Name, at.Child("name"))
	}
	if f.Text(ref.Namespace, at.Child("namespace")) {
		f.Label(ref.Namespace, at.Child("namespace"))
	}
}

// validateClaimTemplate checks a claim that is made for a Pod.
func validateClaimTemplate(claim *corev1.PersistentVolumeClaimTemplate, at *field.Path) field.ErrorList {
	var f kind.Findings
	f.Add(apivalidation.ValidateAnnotations(claim.Annotations, at.Child("metadata", "annotations")))
	f.Add(metavalidation.ValidateLabels(claim.Labels, at.Child("metadata", "labels")))
	checkTemplateMetadata(&f, claim.ObjectMeta, at.Child("metadata"))
	f.Add(ValidateClaimSpec(&claim.Spec, at.Child("spec")))
	return f.List
}
