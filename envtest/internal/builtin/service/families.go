// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// The rules are those of kube-apiserver's pkg/registry/core/service/storage/alloc.go for a cluster that has IPv4 alone.

const ourFamily = corev1.IPv4Protocol

// giveFamilies completes the policy and the families of a Service that has addresses. old is nil on create.
func giveFamilies(svc, old *corev1.Service) field.ErrorList {
	if !hasClusterIP(svc) {
		return nil
	}
	spec := &svc.Spec
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		if namesAnything(svc) {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
		if old != nil && old.Spec.IPFamilyPolicy != nil {
			spec.IPFamilyPolicy = old.Spec.IPFamilyPolicy
		}
	}
	if errs := serviceAddresses(svc); len(errs) > 0 {
		return errs
	}
	errs := giveUpFamilies(spec, old)
	errs = append(errs, familiesOfAddresses(spec)...)
	if len(errs) > 0 {
		return errs
	}
	if namesAnything(svc) {
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []corev1.IPFamily{ourFamily}
		}
		if len(spec.IPFamilies) == 1 && !isSingle(spec) {
			spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
		}
		return nil
	}
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack {
		errs = append(errs, field.Invalid(kind.SpecPath("ipFamilyPolicy"), spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
	}
	for i, family := range spec.IPFamilies {
		if family != ourFamily {
			errs = append(errs, field.Invalid(kind.SpecPath("ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{ourFamily}
	}
	return errs
}

// namesAnything reports whether somebody else makes the endpoints of a Service without address: nobody knows their families.
func namesAnything(svc *corev1.Service) bool { return isHeadless(svc) && len(svc.Spec.Selector) == 0 }

// isSingle reports whether a Service wants one family.
func isSingle(spec *corev1.ServiceSpec) bool {
	return *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
}

func otherFamily(family corev1.IPFamily) corev1.IPFamily {
	if family == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// giveUpFamilies keeps the first family and address of a Service that wants one from now on, and refuses to give up any
// without that.
func giveUpFamilies(spec *corev1.ServiceSpec, old *corev1.Service) field.ErrorList {
	was, path := &corev1.ServiceSpec{}, kind.SpecPath("ipFamilyPolicy")
	if old != nil {
		was = &old.Spec
	}
	var errs field.ErrorList
	if !isSingle(spec) {
		if n := len(spec.ClusterIPs); n > 0 && n < len(was.ClusterIPs) {
			errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP"))
		}
		if n := len(spec.IPFamilies); n > 0 && n < len(was.IPFamilies) {
			errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family"))
		}
		return errs
	}
	if old != nil && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		spec.ClusterIPs = spec.ClusterIPs[:min(1, len(spec.ClusterIPs))]
	}
	if old != nil && slices.Equal(spec.IPFamilies, was.IPFamilies) {
		spec.IPFamilies = spec.IPFamilies[:min(1, len(spec.IPFamilies))]
	}
	if len(spec.ClusterIPs) == 2 {
		errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"))
	}
	if len(spec.IPFamilies) == 2 {
		errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"))
	}
	return errs
}

// familiesOfAddresses adds the families of addresses whose family is not named.
func familiesOfAddresses(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	for i := len(spec.IPFamilies); i < len(spec.ClusterIPs) && spec.ClusterIPs[i] != corev1.ClusterIPNone; i++ {
		family := familyOf(spec.ClusterIPs[i])
		if family != ourFamily {
			errs = append(errs, field.Invalid(kind.SpecPath("clusterIPs").Index(i), spec.ClusterIPs, string(family)+" is not configured on this cluster"))
			continue
		}
		spec.IPFamilies = append(spec.IPFamilies, family)
	}
	return errs
}

// familyOf returns the family of a valid address.
func familyOf(address string) corev1.IPFamily {
	if addr, err := netip.ParseAddr(address); err == nil && addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}
