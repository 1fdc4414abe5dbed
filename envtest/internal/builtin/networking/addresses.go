// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// ipAddressName is the rule for names that are addresses in their canonical form.
func ipAddressName(name string, _ bool) []string {
	var messages []string
	for _, err := range validation.IsValidIP(nil, name) {
		messages = append(messages, err.Detail)
	}
	return messages
}

func validateIPAddress(address, old *networkingv1.IPAddress) field.ErrorList {
	path, parent := kind.SpecPath("parentRef"), address.Spec.ParentRef
	if parent == nil {
		errs := field.ErrorList{field.Required(path, "")}
		if old != nil {
			errs = append(errs, kind.Frozen(parent, old.Spec.ParentRef, path)...)
		}
		return errs
	}
	var errs field.ErrorList
	if parent.Group != "" {
		errs = append(errs, kind.InvalidIf(validation.IsDNS1123Subdomain(parent.Group), parent.Group, path.Child("group"))...)
	}
	for _, part := range []struct {
		name, value string
		optional    bool
	}{{"resource", parent.Resource, false}, {"name", parent.Name, false}, {"namespace", parent.Namespace, true}} {
		if !part.optional {
			errs = append(errs, kind.Required(part.value, path.Child(part.name))...)
		}
		if part.value != "" {
			errs = append(errs, kind.InvalidIf(content.IsPathSegmentName(part.value), part.value, path.Child(part.name))...)
		}
	}
	if old != nil {
		errs = append(errs, kind.Frozen(parent, old.Spec.ParentRef, path)...)
	}
	return errs
}

// validateServiceCIDR checks the ranges of a new object. They never change; a range of the other IP family may be added.
func validateServiceCIDR(cidr, old *networkingv1.ServiceCIDR) field.ErrorList {
	path, ranges := kind.SpecPath("cidrs"), cidr.Spec.CIDRs
	if old == nil {
		return serviceRanges(ranges, path)
	}
	was := old.Spec.CIDRs
	if len(ranges) != len(was) && (len(was) != 1 || len(ranges) != 2) {
		return field.ErrorList{field.Invalid(path, ranges, apivalidation.FieldImmutableErrorMsg)}
	}
	var errs field.ErrorList
	for i := range was {
		if ranges[i] != was[i] {
			errs = append(errs, field.Invalid(path.Index(i), ranges[i], apivalidation.FieldImmutableErrorMsg))
		}
	}
	if len(ranges) != len(was) {
		errs = append(errs, serviceRanges(ranges, path)...)
	}
	return errs
}

func serviceRanges(ranges []string, path *field.Path) field.ErrorList {
	switch {
	case len(ranges) == 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case len(ranges) > 2:
		return field.ErrorList{field.Invalid(path, networkingv1.ServiceCIDRSpec{CIDRs: ranges}, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, cidr := range ranges {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), cidr)...)
	}
	if len(ranges) == 2 {
		family := netutils.IPFamilyOfCIDRString(ranges[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(ranges[1]) {
			errs = append(errs, field.Invalid(path, ranges,
				"may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return errs
}
