// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// PodCheck checks the parts of one Pod spec, and has what they need to know of the others.
type PodCheck struct {
	kind.Findings
	Spec    *corev1.PodSpec
	volumes podVolumes
	claims  sets.Set[string] // the names of spec.resourceClaims
}

func (f *PodCheck) containers(at *field.Path) {
	if f.Need(len(f.Spec.Containers) > 0, at); len(f.Spec.Containers) == 0 {
		return
	}
	names := sets.New[string]()
	for i := range f.Spec.Containers {
		c, here := &f.Spec.Containers[i], at.Index(i)
		f.container(c, here)
		f.Unique(c.Name, names, here.Child("name"))
		f.lifecycle(c.Lifecycle, here.Child("lifecycle"))
		f.probes(c, here)
		f.restartPolicy(c.RestartPolicy, c.RestartPolicyRules, here)
	}
	f.hostPorts(f.Spec.Containers, at)
}

func (f *PodCheck) initContainers(at *field.Path) {
	const sidecar = "may not be set for init containers without restartPolicy=Always"
	names := sets.New[string]()
	for i := range f.Spec.Containers {
		names.Insert(f.Spec.Containers[i].Name)
	}
	for i := range f.Spec.InitContainers {
		c, here := &f.Spec.InitContainers[i], at.Index(i)
		f.container(c, here)
		if f.Need(c.RestartPolicy != nil || len(c.RestartPolicyRules) == 0, here.Child("restartPolicy")); c.RestartPolicy != nil {
			f.restartPolicy(c.RestartPolicy, c.RestartPolicyRules, here)
		}
		f.Unique(c.Name, names, here.Child("name"))
		f.hostPorts(f.Spec.InitContainers[i:i+1], at)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			f.lifecycle(c.Lifecycle, here.Child("lifecycle"))
			f.probes(c, here)
			continue
		}
		f.Forbid(c.Lifecycle != nil, here.Child("lifecycle"), sidecar)
		f.Forbid(c.LivenessProbe != nil, here.Child("livenessProbe"), sidecar)
		f.Forbid(c.ReadinessProbe != nil, here.Child("readinessProbe"), sidecar)
		f.Forbid(c.StartupProbe != nil, here.Child("startupProbe"), sidecar)
		for j, policy := range c.ResizePolicy {
			f.Invalid(policy.RestartPolicy == corev1.RestartContainer, here.Child("resizePolicy").Index(j).Child("restartPolicy"), policy.RestartPolicy,
				"must not be set to 'RestartContainer' for non-sidecar initContainers")
		}
	}
}

// ephemeralFields are the fields that an ephemeral container may have.
var ephemeralFields = []string{"Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices",
	"TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy", "SecurityContext", "Stdin", "StdinOnce", "TTY"}

func (f *PodCheck) ephemeralContainers(at *field.Path) {
	const message = "cannot be set for an Ephemeral Container"
	others := sets.New[string]()
	for _, list := range [][]corev1.Container{f.Spec.Containers, f.Spec.InitContainers} {
		for i := range list {
			others.Insert(list[i].Name)
		}
	}
	names := others.Clone()
	for i := range f.Spec.EphemeralContainers {
		c, here := &f.Spec.EphemeralContainers[i], at.Index(i)
		f.container((*corev1.Container)(&c.EphemeralContainerCommon), here)
		f.Image(c.Image, here)
		f.Unique(c.Name, names, here.Child("name"))
		if c.TargetContainerName != "" && !others.Has(c.TargetContainerName) {
			f.List = append(f.List, field.NotFound(here.Child("targetContainerName"), c.TargetContainerName))
		}
		fields := reflect.ValueOf(c.EphemeralContainerCommon)
		for j := range fields.NumField() {
			name := fields.Type().Field(j).Name
			f.Forbid(!slices.Contains(ephemeralFields, name) && !fields.Field(j).IsZero(), here.Child(strings.ToLower(name[:1])+name[1:]), message)
		}
		for j, mount := range c.VolumeMounts {
			f.Forbid(mount.SubPath != "", here.Child("volumeMounts").Index(j).Child("subPath"), message)
			f.Forbid(mount.SubPathExpr != "", here.Child("volumeMounts").Index(j).Child("subPathExpr"), message)
		}
	}
}

// container checks what all containers have.
func (f *PodCheck) container(c *corev1.Container, at *field.Path) {
	if f.Text(c.Name, at.Child("name")) {
		f.Label(c.Name, at.Child("name"))
	}
	f.Text(c.Image, at.Child("image"))
	kind.Choice(&f.Findings, c.TerminationMessagePolicy, at.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	kind.Choice(&f.Findings, c.ImagePullPolicy, at.Child("imagePullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	f.ports(c.Ports, at.Child("ports"))
	f.environment(c.Env, at.Child("env"))
	f.environmentFrom(c.EnvFrom, at.Child("envFrom"))
	f.mounts(c, at.Child("volumeMounts"))
	f.devices(c, at.Child("volumeDevices"))
	f.resources(&c.Resources, ContainerResource, at.Child("resources"))
	f.resizePolicy(c.ResizePolicy, at.Child("resizePolicy"))
	f.containerSecurity(c.SecurityContext, at.Child("securityContext"))
}

// Image checks what only Pods ask of an image.
func (f *PodCheck) Image(image string, at *field.Path) {
	f.Invalid(strings.TrimSpace(image) != image, at.Child("image"), image, "must not have leading or trailing whitespace")
}

func (f *PodCheck) ports(ports []corev1.ContainerPort, at *field.Path) {
	names := sets.New[string]()
	for i, port := range ports {
		here := at.Index(i)
		if port.Name != "" {
			wrong := validation.IsValidPortName(port.Name)
			if f.Messages(wrong, port.Name, here.Child("name")); len(wrong) == 0 {
				f.Unique(port.Name, names, here.Child("name"))
			}
		}
		if f.Need(port.ContainerPort != 0, here.Child("containerPort")); port.ContainerPort != 0 {
			f.Messages(validation.IsValidPortNum(int(port.ContainerPort)), port.ContainerPort, here.Child("containerPort"))
		}
		if port.HostPort != 0 {
			f.Messages(validation.IsValidPortNum(int(port.HostPort)), port.HostPort, here.Child("hostPort"))
		}
		kind.Choice(&f.Findings, port.Protocol, here.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
	}
}

// hostPorts refuses to give a port of the node to two containers.
func (f *PodCheck) hostPorts(containers []corev1.Container, at *field.Path) {
	taken := sets.New[string]()
	for i := range containers {
		for j, port := range containers[i].Ports {
			if port.HostPort != 0 {
				f.Unique(fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort), taken, at.Index(i).Child("ports").Index(j).Child("hostPort"))
			}
		}
	}
}

func (f *PodCheck) environment(vars []corev1.EnvVar, at *field.Path) {
	for i := range vars {
		v, here := &vars[i], at.Index(i)
		if f.Text(v.Name, here.Child("name")) {
			f.Messages(validation.IsRelaxedEnvVarName(v.Name), v.Name, here.Child("name"))
		}
		if v.ValueFrom != nil {
			f.variableSource(v, here.Child("valueFrom"))
		}
	}
}

func (f *PodCheck) variableSource(v *corev1.EnvVar, at *field.Path) {
	from, sources := v.ValueFrom, 0
	if ref := from.FieldRef; ref != nil {
		sources++
		checkFieldRef(&f.Findings, ref, variableFields, at.Child("fieldRef"))
	}
	if ref := from.ResourceFieldRef; ref != nil {
		sources++
		checkResourceFieldRef(&f.Findings, ref, false, at.Child("resourceFieldRef"))
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		sources++
		f.keyRef(ref.Name, ref.Key, at.Child("configMapKeyRef"))
	}
	if ref := from.SecretKeyRef; ref != nil {
		sources++
		f.keyRef(ref.Name, ref.Key, at.Child("secretKeyRef"))
	}
	if ref := from.FileKeyRef; ref != nil {
		sources++
		f.fileKeyRef(ref, at.Child("fileKeyRef"))
	}
	switch {
	case sources == 0:
		f.Invalid(true, at, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case v.Value != "":
		f.Invalid(true, at, "", "may not be specified when `value` is not empty")
	case sources > 1:
		f.Invalid(true, at, "", "may not have more than one field specified at a time")
	}
}

func (f *PodCheck) keyRef(name, key string, at *field.Path) {
	f.Subdomain(name, at.Child("name"))
	if f.Text(key, at.Child("key")) {
		f.Messages(validation.IsConfigMapKey(key), key, at.Child("key"))
	}
}

func (f *PodCheck) fileKeyRef(ref *corev1.FileKeySelector, at *field.Path) {
	if f.Text(ref.Key, at.Child("key")) {
		f.Messages(validation.IsRelaxedEnvVarName(ref.Key), ref.Key, at.Child("key"))
	}
	name := at.Child("volumeName")
	if f.Text(ref.VolumeName, name) {
		f.Label(ref.VolumeName, name)
	}
	if f.Text(ref.Path, at.Child("path")) {
		CheckNoBacksteps(&f.Findings, ref.Path, at.Child("path"))
	}
	var volume *corev1.Volume
	for i := range f.Spec.Volumes {
		if f.Spec.Volumes[i].Name == ref.VolumeName {
			volume = &f.Spec.Volumes[i]
		}
	}
	if volume == nil {
		f.List = append(f.List, field.NotFound(name, ref.VolumeName))
		return
	}
	f.Invalid(volume.EmptyDir == nil, name, ref.VolumeName, "referenced volume must be of type emptyDir")
}

func (f *PodCheck) environmentFrom(all []corev1.EnvFromSource, at *field.Path) {
	for i, from := range all {
		here, sources := at.Index(i), 0
		if from.Prefix != "" {
			f.Messages(validation.IsRelaxedEnvVarName(from.Prefix), from.Prefix, here.Child("prefix"))
		}
		if from.ConfigMapRef != nil {
			sources++
			f.referenced(from.ConfigMapRef.Name, here.Child("configMapRef", "name"))
		}
		if from.SecretRef != nil {
			sources++
			f.referenced(from.SecretRef.Name, here.Child("secretRef", "name"))
		}
		f.Invalid(sources == 0, at, "", "must specify one of: `configMapRef` or `secretRef`")
		f.Invalid(sources > 1, at, "", "may not have more than one field specified at a time")
	}
}

// referenced checks the name of a Secret or a ConfigMap, which may be a prefix.
func (f *PodCheck) referenced(name string, at *field.Path) {
	if f.Text(name, at) {
		f.Messages(apivalidation.NameIsDNSSubdomain(name, true), name, at)
	}
}

func (f *PodCheck) mounts(c *corev1.Container, at *field.Path) {
	devices, paths := map[string]bool{}, map[string]bool{}
	for _, device := range c.VolumeDevices {
		devices[device.Name], paths[device.DevicePath] = true, true
	}
	mounted := sets.New[string]()
	for i := range c.VolumeMounts {
		mount, here := &c.VolumeMounts[i], at.Index(i)
		f.Text(mount.Name, here.Child("name"))
		if f.volumes[mount.Name] == nil {
			f.List = append(f.List, field.NotFound(here.Child("name"), mount.Name))
		}
		f.Text(mount.MountPath, here.Child("mountPath"))
		f.Invalid(mounted.Has(mount.MountPath), here.Child("mountPath"), mount.MountPath, "must be unique")
		mounted.Insert(mount.MountPath)
		f.Invalid(devices[mount.Name], here.Child("name"), mount.Name, "must not already exist in volumeDevices")
		f.Invalid(paths[mount.MountPath], here.Child("mountPath"), mount.MountPath, "must not already exist as a path in volumeDevices")
		checkDescending(&f.Findings, mount.SubPath, at.Child("subPath"))
		f.Invalid(mount.SubPath != "" && mount.SubPathExpr != "", here.Child("subPathExpr"), mount.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		checkDescending(&f.Findings, mount.SubPathExpr, at.Child("subPathExpr"))
		f.mountModes(mount, c.SecurityContext, at)
	}
}

func (f *PodCheck) mountModes(mount *corev1.VolumeMount, security *corev1.SecurityContext, at *field.Path) {
	if mode := mount.MountPropagation; mode != nil {
		kind.Known(&f.Findings, *mode, at.Child("mountPropagation"), corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		privileged := security != nil && kind.IsTrue(security.Privileged)
		f.Forbid(*mode == corev1.MountPropagationBidirectional && !privileged, at.Child("mountPropagation"),
			"Bidirectional mount propagation is available only to privileged containers")
	}
	if mode := mount.RecursiveReadOnly; mode != nil && *mode != corev1.RecursiveReadOnlyDisabled {
		here, before := at.Child("recursiveReadOnly"), len(f.List)
		kind.Known(&f.Findings, *mode, here, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled)
		if len(f.List) == before {
			f.Forbid(!mount.ReadOnly, here, "may only be specified when readOnly is true")
			f.Forbid(mount.MountPropagation != nil && *mount.MountPropagation != corev1.MountPropagationNone, here,
				"may only be specified when mountPropagation is None or not specified")
		}
	}
}

func (f *PodCheck) devices(c *corev1.Container, at *field.Path) {
	mounts, paths := map[string]bool{}, map[string]bool{}
	for _, mount := range c.VolumeMounts {
		mounts[mount.Name], paths[mount.MountPath] = true, true
	}
	names, seen := sets.New[string](), sets.New[string]()
	for i, device := range c.VolumeDevices {
		here := at.Index(i)
		source := f.volumes[device.Name]
		f.Text(device.Name, here.Child("name"))
		f.Invalid(names.Has(device.Name), here.Child("name"), device.Name, "must be unique")
		if source == nil {
			f.List = append(f.List, field.NotFound(here.Child("name"), device.Name))
		} else {
			f.Invalid(source.PersistentVolumeClaim == nil && source.Ephemeral == nil, here.Child("name"), device.Name,
				"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		f.Text(device.DevicePath, here.Child("devicePath"))
		f.Invalid(seen.Has(device.DevicePath), here.Child("devicePath"), device.DevicePath, "must be unique")
		if slices.Contains(strings.Split(device.DevicePath, "/"), "..") {
			f.Invalid(true, here.Child("devicePath"), device.DevicePath, "can not contain backsteps ('..')")
		} else {
			seen.Insert(device.DevicePath)
		}
		f.Invalid(mounts[device.Name], here.Child("name"), device.Name, "must not already exist in volumeMounts")
		f.Invalid(paths[device.DevicePath], here.Child("devicePath"), device.DevicePath, "must not already exist as a path in volumeMounts")
		if device.Name != "" {
			names.Insert(device.Name)
		}
	}
}
