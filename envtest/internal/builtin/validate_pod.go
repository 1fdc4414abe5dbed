// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePod checks a Pod. Of a Pod that exists only few fields of the spec may change.
func validatePod(pod, old *corev1.Pod) field.ErrorList {
	path := specPath()
	errs := validatePodSpec(&pod.Spec, path)
	if old != nil {
		return append(errs, validatePodUpdate(&pod.Spec, &old.Spec, path)...)
	}
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// validateTemplate checks a Pod template; restart lists the policies that its owner can work with.
func validateTemplate(template *corev1.PodTemplateSpec, path *field.Path, restart ...corev1.RestartPolicy) field.ErrorList {
	errs := metavalidation.ValidateLabels(template.Labels, path.Child("metadata", "labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, path.Child("metadata", "annotations"))...)
	errs = append(errs, validatePodSpec(&template.Spec, path.Child("spec"))...)
	if len(restart) > 0 {
		errs = append(errs, oneOf(template.Spec.RestartPolicy, path.Child("spec", "restartPolicy"), restart...)...)
	}
	return errs
}

// validatePodSpec checks what Pods and Pod templates have in common.
func validatePodSpec(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	volumes, errs := validateVolumes(spec.Volumes, path.Child("volumes"))
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	names := sets.New[string]()
	for i := range spec.InitContainers {
		errs = append(errs, validateContainer(&spec.InitContainers[i], volumes, names, path.Child("initContainers").Index(i))...)
	}
	for i := range spec.Containers {
		errs = append(errs, validateContainer(&spec.Containers[i], volumes, names, path.Child("containers").Index(i))...)
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		errs = append(errs, validateContainer(&c, volumes, names, path.Child("ephemeralContainers").Index(i))...)
	}
	errs = append(errs, oneOf(spec.RestartPolicy, path.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	errs = append(errs, oneOf(spec.DNSPolicy, path.Child("dnsPolicy"),
		corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)...)
	errs = append(errs, metavalidation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	if spec.ServiceAccountName != "" {
		errs = append(errs, invalidIf(apivalidation.ValidateServiceAccountName(spec.ServiceAccountName, false), spec.ServiceAccountName, path.Child("serviceAccountName"))...)
	}
	if spec.NodeName != "" {
		errs = append(errs, invalidIf(apivalidation.NameIsDNSSubdomain(spec.NodeName, false), spec.NodeName, path.Child("nodeName"))...)
	}
	if spec.ActiveDeadlineSeconds != nil && *spec.ActiveDeadlineSeconds < 1 {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *spec.ActiveDeadlineSeconds, "must be greater than or equal to 1"))
	}
	if spec.Hostname != "" {
		errs = append(errs, invalidIf(validation.IsDNS1123Label(spec.Hostname), spec.Hostname, path.Child("hostname"))...)
	}
	if spec.Subdomain != "" {
		errs = append(errs, invalidIf(validation.IsDNS1123Label(spec.Subdomain), spec.Subdomain, path.Child("subdomain"))...)
	}
	return errs
}

// validateVolumes checks the names of volumes and returns them.
func validateVolumes(volumes []corev1.Volume, path *field.Path) (sets.Set[string], field.ErrorList) {
	names := sets.New[string]()
	var errs field.ErrorList
	for i := range volumes {
		errs = append(errs, uniqueLabel(volumes[i].Name, names, path.Index(i).Child("name"))...)
	}
	return names, errs
}

// uniqueLabel checks a name that is a DNS label and occurs once, and adds it to seen.
func uniqueLabel(name string, seen sets.Set[string], path *field.Path) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "")}
	case seen.Has(name):
		return field.ErrorList{field.Duplicate(path, name)}
	}
	seen.Insert(name)
	return invalidIf(validation.IsDNS1123Label(name), name, path)
}

// validateContainer checks one container and adds its name to names.
func validateContainer(c *corev1.Container, volumes, names sets.Set[string], path *field.Path) field.ErrorList {
	errs := uniqueLabel(c.Name, names, path.Child("name"))
	errs = append(errs, required(c.Image, path.Child("image"))...)
	errs = append(errs, oneOf(c.ImagePullPolicy, path.Child("imagePullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, oneOf(c.TerminationMessagePolicy, path.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	for i := range c.Env {
		errs = append(errs, required(c.Env[i].Name, path.Child("env").Index(i).Child("name"))...)
		if c.Env[i].Value != "" && c.Env[i].ValueFrom != nil {
			errs = append(errs, field.Invalid(path.Child("env").Index(i).Child("valueFrom"), "", "may not be specified when `value` is not empty"))
		}
	}
	errs = append(errs, validateContainerPorts(c.Ports, path.Child("ports"))...)
	mounts := sets.New[string]()
	for i, mount := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		switch {
		case mount.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case !volumes.Has(mount.Name):
			errs = append(errs, field.NotFound(at.Child("name"), mount.Name))
		}
		switch {
		case mount.MountPath == "":
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		case mounts.Has(mount.MountPath):
			errs = append(errs, field.Invalid(at.Child("mountPath"), mount.MountPath, "must be unique"))
		}
		mounts.Insert(mount.MountPath)
	}
	return append(errs, validateResources(&c.Resources, path.Child("resources"))...)
}

func validateContainerPorts(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, port := range ports {
		at := path.Index(i)
		if port.Name != "" {
			errs = append(errs, invalidIf(validation.IsValidPortName(port.Name), port.Name, at.Child("name"))...)
			if names.Has(port.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
			}
			names.Insert(port.Name)
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, invalidIf(validation.IsValidPortNum(int(port.ContainerPort)), port.ContainerPort, at.Child("containerPort"))...)
		}
		errs = append(errs, oneOf(port.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	}
	return errs
}

// validateResources checks that quantities are not negative and that no request is above its limit.
func validateResources(r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, limit := range r.Limits {
		errs = append(errs, notNegativeQuantity(limit, path.Child("limits").Key(string(name)))...)
	}
	for name, request := range r.Requests {
		at := path.Child("requests").Key(string(name))
		errs = append(errs, notNegativeQuantity(request, at)...)
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests"), request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	return errs
}
