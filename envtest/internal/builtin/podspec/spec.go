// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// ValidateTemplate checks a Pod template; restart lists the policies that its owner can work with.
func ValidateTemplate(template *corev1.PodTemplateSpec, path *field.Path, restart ...corev1.RestartPolicy) field.ErrorList {
	errs := metavalidation.ValidateLabels(template.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
	errs = append(errs, ValidatePodSpec(&template.Spec, false, path.Child("spec"))...)
	var f kind.Findings
	CheckPodAnnotations(&f, template.Annotations, &template.Spec, path.Child("annotations"))
	CheckProfiles(&f, template.Annotations, &template.Spec, path.Child("spec"))
	errs = append(errs, f.List...)
	if len(restart) > 0 {
		errs = append(errs, kind.OneOf(template.Spec.RestartPolicy, path.Child("spec", "restartPolicy"), restart...)...)
	}
	return errs
}

// ValidatePodSpec checks what Pods and Pod templates have in common. It has more than sixty lines because it is a list: a line
// or two for each field.
func ValidatePodSpec(spec *corev1.PodSpec, pod bool, at *field.Path) field.ErrorList {
	f := PodCheck{Spec: spec, claims: sets.New[string]()}
	volumes, wrong := validateVolumes(spec.Volumes, at.Child("volumes"))
	f.volumes = volumes
	f.Add(wrong)
	f.resourceClaims(at.Child("resourceClaims"))
	f.containers(at.Child("containers"))
	f.initContainers(at.Child("initContainers"))
	f.ephemeralContainers(at.Child("ephemeralContainers"))
	f.wholePod(at)
	f.hostNetwork(pod, at)
	kind.Choice(&f.Findings, spec.RestartPolicy, at.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	kind.Choice(&f.Findings, spec.DNSPolicy, at.Child("dnsPolicy"),
		corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)
	f.Add(metavalidation.ValidateLabels(spec.NodeSelector, at.Child("nodeSelector")))
	f.podSecurity(spec.SecurityContext, at.Child("securityContext"))
	f.affinity(spec.Affinity, at.Child("affinity"))
	f.dns(at.Child("dnsConfig"))
	for i, gate := range spec.ReadinessGates {
		f.Messages(validation.IsQualifiedName(string(gate.ConditionType)), gate.ConditionType, at.Child("readinessGates").Index(i).Child("conditionType"))
	}
	gates := sets.New[string]()
	for i, gate := range spec.SchedulingGates {
		f.Messages(validation.IsQualifiedName(gate.Name), gate.Name, at.Child("schedulingGates").Index(i))
		f.Unique(gate.Name, gates, at.Child("schedulingGates").Index(i))
	}
	f.topologySpread(spec.TopologySpreadConstraints, at.Child("topologySpreadConstraints"))
	f.hostProcesses(at)
	f.names(at)
	if spec.ActiveDeadlineSeconds != nil {
		f.Within(*spec.ActiveDeadlineSeconds, 1, math.MaxInt32, at.Child("activeDeadlineSeconds"))
	}
	CheckTolerations(&f.Findings, spec.Tolerations, at.Child("tolerations"))
	for i, alias := range spec.HostAliases {
		at := at.Child("hostAliases").Index(i)
		f.Add(validation.IsValidIPForLegacyField(at.Child("ip"), alias.IP, true, nil))
		for j, name := range alias.Hostnames {
			f.Subdomain(name, at.Child("hostnames").Index(j))
		}
	}
	kind.Chosen(&f.Findings, spec.PreemptionPolicy, at.Child("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)
	if spec.Overhead != nil {
		f.resources(&corev1.ResourceRequirements{Limits: spec.Overhead}, ContainerResource, at.Child("overhead"))
	}
	f.operatingSystem(at)
	return f.List
}

// names checks the names that a Pod spec has, and gives.
func (f *PodCheck) names(at *field.Path) {
	spec := f.Spec
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
			f.Messages(n.rule(n.value), n.value, at.Child(n.field))
		}
	}
	if spec.RuntimeClassName != nil {
		f.Subdomain(*spec.RuntimeClassName, at.Child("runtimeClassName"))
	}
	if spec.HostnameOverride != nil {
		at := at.Child("hostnameOverride")
		f.Forbid(kind.IsTrue(spec.SetHostnameAsFQDN), at, "may not be specified when setHostnameAsFQDN is true")
		f.Forbid(spec.HostNetwork, at, "may not be specified when hostNetwork is true")
		if len(*spec.HostnameOverride) > 64 {
			f.List = append(f.List, field.TooLong(at, "", 64))
		}
		f.Subdomain(*spec.HostnameOverride, at)
	}
	if spec.HostUsers != nil && !*spec.HostUsers {
		f.Forbid(spec.HostNetwork, at.Child("hostNetwork"), "when `hostUsers` is false")
		f.Forbid(spec.HostPID, at.Child("HostPID"), "when `hostUsers` is false")
		f.Forbid(spec.HostIPC, at.Child("HostIPC"), "when `hostUsers` is false")
		EveryContainer(f.Spec, at, func(c *corev1.Container, at *field.Path) {
			f.Forbid(len(c.VolumeDevices) > 0, at.Child("volumeDevices"), "when `hostUsers` is false")
		})
	}
}

// resourceClaims checks the claims of devices, and collects their names.
func (f *PodCheck) resourceClaims(at *field.Path) {
	for i, claim := range f.Spec.ResourceClaims {
		here := at.Index(i)
		if f.Text(claim.Name, here.Child("name")) {
			if f.claims.Has(claim.Name) {
				f.List = append(f.List, field.Duplicate(here.Child("name"), claim.Name))
			} else {
				f.Label(claim.Name, here.Child("name"))
			}
			f.claims.Insert(claim.Name)
		}
		f.Invalid((claim.ResourceClaimName == nil) == (claim.ResourceClaimTemplateName == nil), here, claim,
			"must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		if claim.ResourceClaimName != nil {
			f.Subdomain(*claim.ResourceClaimName, here.Child("resourceClaimName"))
		}
		if claim.ResourceClaimTemplateName != nil {
			f.Subdomain(*claim.ResourceClaimTemplateName, here.Child("resourceClaimTemplateName"))
		}
	}
}

// hostNetwork checks that the ports of a Pod in the network of its node are those of the node.
func (f *PodCheck) hostNetwork(pod bool, at *field.Path) {
	if !f.Spec.HostNetwork {
		return
	}
	for i := range f.Spec.Containers {
		for j, port := range f.Spec.Containers[i].Ports {
			f.Invalid((pod || port.HostPort != 0) && port.HostPort != port.ContainerPort, at.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"),
				port.HostPort, "must match `containerPort` when `hostNetwork` is true")
		}
	}
}

func (f *PodCheck) dns(at *field.Path) {
	config := f.Spec.DNSConfig
	if f.Spec.DNSPolicy == corev1.DNSNone {
		if config == nil {
			f.Need(false, at)
			return
		}
		if len(config.Nameservers) == 0 {
			f.Need(false, at.Child("nameservers"))
			return
		}
	}
	if config == nil {
		return
	}
	f.Invalid(len(config.Nameservers) > 3, at.Child("nameservers"), config.Nameservers, "must not have more than 3 nameservers")
	for i, server := range config.Nameservers {
		f.Add(validation.IsValidIPForLegacyField(at.Child("nameservers").Index(i), server, true, nil))
	}
	f.Invalid(len(config.Searches) > 32, at.Child("searches"), config.Searches, "must not have more than 32 search paths")
	f.Invalid(len(strings.Join(config.Searches, " ")) > 2048, at.Child("searches"), config.Searches,
		"must not have more than 2048 characters (including spaces) in the search list")
	for i, search := range config.Searches {
		if search != "." {
			search = strings.TrimSuffix(search, ".")
			f.Messages(validation.IsDNS1123SubdomainWithUnderscore(search), search, at.Child("searches").Index(i))
		}
	}
	for i, option := range config.Options {
		f.Need(option.Name != "", at.Child("options").Index(i))
	}
}

// operatingSystem checks what a Pod for one system may not have.
func (f *PodCheck) operatingSystem(at *field.Path) {
	if f.Spec.OS == nil {
		return
	}
	if f.Spec.OS.Name == "" {
		f.Need(false, at.Child("os", "name"))
		return
	}
	kind.Known(&f.Findings, f.Spec.OS.Name, at.Child("os"), corev1.Linux, corev1.Windows)
	if f.Spec.OS.Name == corev1.Linux {
		const message = "windows options cannot be set for a linux pod"
		f.Forbid(f.Spec.SecurityContext != nil && f.Spec.SecurityContext.WindowsOptions != nil, at.Child("securityContext", "windowsOptions"), message)
		EveryContainer(f.Spec, at, func(c *corev1.Container, at *field.Path) {
			f.Forbid(c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil, at.Child("securityContext", "windowsOptions"), message)
		})
	}
	if f.Spec.OS.Name == corev1.Windows {
		f.windowsPod(at)
	}
}
