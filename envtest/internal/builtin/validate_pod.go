// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"math"
	"strings"

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
	errs := append(validatePodSpec(&pod.Spec, true, path), onlyForPods(pod, path)...)
	var f faults
	if old != nil {
		f.keptAnnotations(pod.Annotations, old.Annotations)
		return append(append(errs, f.list...), validatePodUpdate(&pod.Spec, &old.Spec, path)...)
	}
	f.profiles(pod.Annotations, &pod.Spec, path)
	errs = append(errs, f.list...)
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
	errs := metavalidation.ValidateLabels(template.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
	errs = append(errs, validatePodSpec(&template.Spec, false, path.Child("spec"))...)
	var f faults
	f.podAnnotations(template.Annotations, &template.Spec, path.Child("annotations"))
	f.profiles(template.Annotations, &template.Spec, path.Child("spec"))
	errs = append(errs, f.list...)
	if len(restart) > 0 {
		errs = append(errs, oneOf(template.Spec.RestartPolicy, path.Child("spec", "restartPolicy"), restart...)...)
	}
	return errs
}

// validatePodSpec checks what Pods and Pod templates have in common. It has more than sixty lines because it is a list: a line
// or two for each field.
func validatePodSpec(spec *corev1.PodSpec, pod bool, at *field.Path) field.ErrorList {
	f := podCheck{spec: spec, claims: sets.New[string]()}
	volumes, wrong := validateVolumes(spec.Volumes, at.Child("volumes"))
	f.volumes = volumes
	f.add(wrong)
	f.resourceClaims(at.Child("resourceClaims"))
	f.containers(at.Child("containers"))
	f.initContainers(at.Child("initContainers"))
	f.ephemeralContainers(at.Child("ephemeralContainers"))
	f.wholePod(at)
	f.hostNetwork(pod, at)
	choice(&f.faults, spec.RestartPolicy, at.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	choice(&f.faults, spec.DNSPolicy, at.Child("dnsPolicy"),
		corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)
	f.add(metavalidation.ValidateLabels(spec.NodeSelector, at.Child("nodeSelector")))
	f.podSecurity(spec.SecurityContext, at.Child("securityContext"))
	f.affinity(spec.Affinity, at.Child("affinity"))
	f.dns(at.Child("dnsConfig"))
	for i, gate := range spec.ReadinessGates {
		f.messages(validation.IsQualifiedName(string(gate.ConditionType)), gate.ConditionType, at.Child("readinessGates").Index(i).Child("conditionType"))
	}
	gates := sets.New[string]()
	for i, gate := range spec.SchedulingGates {
		f.messages(validation.IsQualifiedName(gate.Name), gate.Name, at.Child("schedulingGates").Index(i))
		f.unique(gate.Name, gates, at.Child("schedulingGates").Index(i))
	}
	f.topologySpread(spec.TopologySpreadConstraints, at.Child("topologySpreadConstraints"))
	f.hostProcesses(at)
	f.names(at)
	if spec.ActiveDeadlineSeconds != nil {
		f.within(*spec.ActiveDeadlineSeconds, 1, math.MaxInt32, at.Child("activeDeadlineSeconds"))
	}
	f.tolerations(spec.Tolerations, at.Child("tolerations"))
	for i, alias := range spec.HostAliases {
		at := at.Child("hostAliases").Index(i)
		f.add(validation.IsValidIPForLegacyField(at.Child("ip"), alias.IP, true, nil))
		for j, name := range alias.Hostnames {
			f.subdomain(name, at.Child("hostnames").Index(j))
		}
	}
	chosen(&f.faults, spec.PreemptionPolicy, at.Child("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)
	if spec.Overhead != nil {
		f.resources(&corev1.ResourceRequirements{Limits: spec.Overhead}, containerResource, at.Child("overhead"))
	}
	f.operatingSystem(at)
	return f.list
}

// names checks the names that a Pod spec has, and gives.
func (f *podCheck) names(at *field.Path) {
	spec := f.spec
	for _, n := range []struct {
		value, field string
		rule         func(string) []string
	}{
		{spec.ServiceAccountName, "serviceAccountName", validation.IsDNS1123Subdomain},
		{spec.NodeName, "nodeName", validation.IsDNS1123Subdomain},
		{spec.Hostname, "hostname", validation.IsDNS1123Label},
		{spec.Subdomain, "subdomain", validation.IsDNS1123Label},
		{spec.PriorityClassName, "priorityClassName", validation.IsDNS1123Subdomain},
	} {
		if n.value != "" {
			f.messages(n.rule(n.value), n.value, at.Child(n.field))
		}
	}
	if spec.RuntimeClassName != nil {
		f.subdomain(*spec.RuntimeClassName, at.Child("runtimeClassName"))
	}
	if spec.HostnameOverride != nil {
		at := at.Child("hostnameOverride")
		f.forbid(isTrue(spec.SetHostnameAsFQDN), at, "may not be specified when setHostnameAsFQDN is true")
		f.forbid(spec.HostNetwork, at, "may not be specified when hostNetwork is true")
		if len(*spec.HostnameOverride) > 64 {
			f.list = append(f.list, field.TooLong(at, "", 64))
		}
		f.subdomain(*spec.HostnameOverride, at)
	}
	if spec.HostUsers != nil && !*spec.HostUsers {
		f.forbid(spec.HostNetwork, at.Child("hostNetwork"), "when `hostUsers` is false")
		f.forbid(spec.HostPID, at.Child("HostPID"), "when `hostUsers` is false")
		f.forbid(spec.HostIPC, at.Child("HostIPC"), "when `hostUsers` is false")
		everyContainer(f.spec, at, func(c *corev1.Container, at *field.Path) {
			f.forbid(len(c.VolumeDevices) > 0, at.Child("volumeDevices"), "when `hostUsers` is false")
		})
	}
}

// resourceClaims checks the claims of devices, and collects their names.
func (f *podCheck) resourceClaims(at *field.Path) {
	for i, claim := range f.spec.ResourceClaims {
		here := at.Index(i)
		if f.text(claim.Name, here.Child("name")) {
			if f.claims.Has(claim.Name) {
				f.list = append(f.list, field.Duplicate(here.Child("name"), claim.Name))
			} else {
				f.label(claim.Name, here.Child("name"))
			}
			f.claims.Insert(claim.Name)
		}
		f.invalid((claim.ResourceClaimName == nil) == (claim.ResourceClaimTemplateName == nil), here, claim,
			"must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		if claim.ResourceClaimName != nil {
			f.subdomain(*claim.ResourceClaimName, here.Child("resourceClaimName"))
		}
		if claim.ResourceClaimTemplateName != nil {
			f.subdomain(*claim.ResourceClaimTemplateName, here.Child("resourceClaimTemplateName"))
		}
	}
}

// hostNetwork checks that the ports of a Pod in the network of its node are those of the node.
func (f *podCheck) hostNetwork(pod bool, at *field.Path) {
	if !f.spec.HostNetwork {
		return
	}
	for i := range f.spec.Containers {
		for j, port := range f.spec.Containers[i].Ports {
			f.invalid((pod || port.HostPort != 0) && port.HostPort != port.ContainerPort, at.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"),
				port.HostPort, "must match `containerPort` when `hostNetwork` is true")
		}
	}
}

func (f *podCheck) dns(at *field.Path) {
	config := f.spec.DNSConfig
	if f.spec.DNSPolicy == corev1.DNSNone {
		if config == nil {
			f.need(false, at)
			return
		}
		if len(config.Nameservers) == 0 {
			f.need(false, at.Child("nameservers"))
			return
		}
	}
	if config == nil {
		return
	}
	f.invalid(len(config.Nameservers) > 3, at.Child("nameservers"), config.Nameservers, "must not have more than 3 nameservers")
	for i, server := range config.Nameservers {
		f.add(validation.IsValidIPForLegacyField(at.Child("nameservers").Index(i), server, true, nil))
	}
	f.invalid(len(config.Searches) > 32, at.Child("searches"), config.Searches, "must not have more than 32 search paths")
	f.invalid(len(strings.Join(config.Searches, " ")) > 2048, at.Child("searches"), config.Searches,
		"must not have more than 2048 characters (including spaces) in the search list")
	for i, search := range config.Searches {
		if search != "." {
			search = strings.TrimSuffix(search, ".")
			f.messages(validation.IsDNS1123SubdomainWithUnderscore(search), search, at.Child("searches").Index(i))
		}
	}
	for i, option := range config.Options {
		f.need(option.Name != "", at.Child("options").Index(i))
	}
}

// operatingSystem checks what a Pod for one system may not have.
func (f *podCheck) operatingSystem(at *field.Path) {
	if f.spec.OS == nil {
		return
	}
	if f.spec.OS.Name == "" {
		f.need(false, at.Child("os", "name"))
		return
	}
	known(&f.faults, f.spec.OS.Name, at.Child("os"), corev1.Linux, corev1.Windows)
	if f.spec.OS.Name == corev1.Linux {
		const message = "windows options cannot be set for a linux pod"
		f.forbid(f.spec.SecurityContext != nil && f.spec.SecurityContext.WindowsOptions != nil, at.Child("securityContext", "windowsOptions"), message)
		everyContainer(f.spec, at, func(c *corev1.Container, at *field.Path) {
			f.forbid(c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil, at.Child("securityContext", "windowsOptions"), message)
		})
	}
	if f.spec.OS.Name == corev1.Windows {
		f.windowsPod(at)
	}
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
