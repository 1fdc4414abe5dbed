// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"net/netip"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateLease(lease, _ *coordinationv1.Lease) field.ErrorList {
	var errs field.ErrorList
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		errs = append(errs, field.Invalid(specPath("leaseDurationSeconds"), *seconds, "must be greater than 0"))
	}
	return append(errs, notNegative(lease.Spec.LeaseTransitions, specPath("leaseTransitions"))...)
}

func validateEndpointSlice(slice, old *discoveryv1.EndpointSlice) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("addressType")
	if slice.AddressType == "" {
		errs = append(errs, field.Required(path, ""))
	} else {
		errs = append(errs, oneOf(slice.AddressType, path, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN)...)
	}
	if old != nil {
		errs = append(errs, frozen(slice.AddressType, old.AddressType, path)...)
	}
	for i, endpoint := range slice.Endpoints {
		at := field.NewPath("endpoints").Index(i).Child("addresses")
		if len(endpoint.Addresses) == 0 {
			errs = append(errs, field.Required(at, "must contain at least 1 address"))
		}
		for j, address := range endpoint.Addresses {
			errs = append(errs, endpointAddress(address, slice.AddressType, at.Index(j))...)
		}
	}
	return errs
}

func endpointAddress(address string, kind discoveryv1.AddressType, path *field.Path) field.ErrorList {
	ip, err := netip.ParseAddr(address)
	switch {
	case kind == discoveryv1.AddressTypeIPv4 && (err != nil || !ip.Is4()):
		return field.ErrorList{field.Invalid(path, address, "must be an IPv4 address")}
	case kind == discoveryv1.AddressTypeIPv6 && (err != nil || !ip.Is6()):
		return field.ErrorList{field.Invalid(path, address, "must be an IPv6 address")}
	case kind == discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(path, address)
	}
	return nil
}

func validateIngress(ingress, _ *networkingv1.Ingress) field.ErrorList {
	spec, path := &ingress.Spec, specPath()
	var errs field.ErrorList
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(path, spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, ingressBackend(spec.DefaultBackend, path.Child("defaultBackend"))...)
	}
	for i, rule := range spec.Rules {
		at := path.Child("rules").Index(i)
		if _, err := netip.ParseAddr(rule.Host); err == nil {
			errs = append(errs, field.Invalid(at.Child("host"), rule.Host, "must be a DNS name, not an IP address"))
		}
		if rule.HTTP == nil {
			continue
		}
		if len(rule.HTTP.Paths) == 0 {
			errs = append(errs, field.Required(at.Child("http", "paths"), ""))
		}
		for j := range rule.HTTP.Paths {
			errs = append(errs, ingressPath(&rule.HTTP.Paths[j], at.Child("http", "paths").Index(j))...)
		}
	}
	return errs
}

func ingressPath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	errs := oneOf(*p.PathType, path.Child("pathType"), networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	optional := *p.PathType == networkingv1.PathTypeImplementationSpecific
	if !strings.HasPrefix(p.Path, "/") && !(optional && p.Path == "") {
		errs = append(errs, field.Invalid(path.Child("path"), p.Path, "must be an absolute path"))
	}
	return append(errs, ingressBackend(&p.Backend, path.Child("backend"))...)
}

func ingressBackend(backend *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	service := backend.Service
	switch {
	case service != nil && backend.Resource != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case backend.Resource != nil:
		errs := required(backend.Resource.Kind, path.Child("resource", "kind"))
		return append(errs, required(backend.Resource.Name, path.Child("resource", "name"))...)
	case service == nil:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
	errs := required(service.Name, path.Child("service", "name"))
	named, numbered := service.Port.Name != "", service.Port.Number != 0
	switch {
	case named && numbered:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case named:
		errs = append(errs, invalidIf(validation.IsValidPortName(service.Port.Name), service.Port.Name, path.Child("service", "port", "name"))...)
	case numbered:
		errs = append(errs, invalidIf(validation.IsValidPortNum(int(service.Port.Number)), service.Port.Number, path.Child("service", "port", "number"))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

func validateIngressClass(class, old *networkingv1.IngressClass) field.ErrorList {
	if old == nil {
		return nil
	}
	return frozen(class.Spec.Controller, old.Spec.Controller, specPath("controller"))
}

func validateNetworkPolicy(policy, _ *networkingv1.NetworkPolicy) field.ErrorList {
	errs := labelSelector(&policy.Spec.PodSelector, specPath("podSelector"))
	for i, kind := range policy.Spec.PolicyTypes {
		errs = append(errs, oneOf(kind, specPath("policyTypes").Index(i), networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress)...)
	}
	return errs
}

func validatePodDisruptionBudget(budget, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	spec := &budget.Spec
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(specPath(), *spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, countOrPercent(spec.MinAvailable, specPath("minAvailable"))...)
	errs = append(errs, countOrPercent(spec.MaxUnavailable, specPath("maxUnavailable"))...)
	return append(errs, labelSelector(spec.Selector, specPath("selector"))...)
}

func validateRole(role, _ *rbacv1.Role) field.ErrorList {
	return policyRules(role.Rules, true)
}

func validateClusterRole(role, _ *rbacv1.ClusterRole) field.ErrorList {
	errs := policyRules(role.Rules, false)
	if role.AggregationRule == nil {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(role.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		errs = append(errs, labelSelector(&role.AggregationRule.ClusterRoleSelectors[i], path.Index(i))...)
	}
	return errs
}

func policyRules(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		path := field.NewPath("rules").Index(i)
		if len(rule.Verbs) == 0 {
			errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
		}
		if len(rule.NonResourceURLs) > 0 {
			if namespaced {
				errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
			}
			if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
				errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		}
		if len(rule.APIGroups) == 0 {
			errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(rule.Resources) == 0 {
			errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}

func validateRoleBinding(binding, old *rbacv1.RoleBinding) field.ErrorList {
	errs := validateBound(binding.RoleRef, binding.Subjects, true)
	if old != nil && old.RoleRef != binding.RoleRef {
		errs = append(errs, field.Invalid(field.NewPath("roleRef"), binding.RoleRef, "cannot change roleRef"))
	}
	return errs
}

func validateClusterRoleBinding(binding, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := validateBound(binding.RoleRef, binding.Subjects, false)
	if old != nil && old.RoleRef != binding.RoleRef {
		errs = append(errs, field.Invalid(field.NewPath("roleRef"), binding.RoleRef, "cannot change roleRef"))
	}
	return errs
}

// validateBound checks what a binding binds. A cluster-wide one knows cluster roles only, and has no namespace of its own.
func validateBound(role rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	path := field.NewPath("roleRef")
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	errs := oneOf(role.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)
	errs = append(errs, oneOf(role.Kind, path.Child("kind"), kinds...)...)
	errs = append(errs, required(role.Name, path.Child("name"))...)
	for i, subject := range subjects {
		at := field.NewPath("subjects").Index(i)
		errs = append(errs, required(subject.Name, at.Child("name"))...)
		errs = append(errs, oneOf(subject.Kind, at.Child("kind"), rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)...)
		switch {
		case subject.Kind == rbacv1.ServiceAccountKind && subject.Name != "":
			errs = append(errs, invalidIf(apivalidation.ValidateServiceAccountName(subject.Name, false), subject.Name, at.Child("name"))...)
			errs = append(errs, oneOf(subject.APIGroup, at.Child("apiGroup"), "")...)
			if !namespaced {
				errs = append(errs, required(subject.Namespace, at.Child("namespace"))...)
			}
		case subject.Kind == rbacv1.UserKind, subject.Kind == rbacv1.GroupKind:
			errs = append(errs, oneOf(subject.APIGroup, at.Child("apiGroup"), rbacv1.GroupName)...)
		}
	}
	return errs
}

func validateStorageClass(class, old *storagev1.StorageClass) field.ErrorList {
	errs := required(class.Provisioner, field.NewPath("provisioner"))
	if old == nil {
		return errs
	}
	errs = append(errs, frozen(class.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, frozen(class.Parameters, old.Parameters, field.NewPath("parameters"))...)
	errs = append(errs, frozen(class.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	return append(errs, frozen(class.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}

func validateVolumeAttachment(attachment, old *storagev1.VolumeAttachment) field.ErrorList {
	errs := required(attachment.Spec.Attacher, specPath("attacher"))
	errs = append(errs, required(attachment.Spec.NodeName, specPath("nodeName"))...)
	source := attachment.Spec.Source
	if (source.PersistentVolumeName == nil) == (source.InlineVolumeSpec == nil) {
		errs = append(errs, field.Required(specPath("source"), "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	}
	if old != nil {
		errs = append(errs, frozen(attachment.Spec, old.Spec, specPath())...)
	}
	return errs
}
