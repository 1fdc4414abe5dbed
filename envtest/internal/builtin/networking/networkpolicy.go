// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package networking

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func validateNetworkPolicy(policy, _ *networkingv1.NetworkPolicy) field.ErrorList {
	var f kind.Findings
	spec, at := &policy.Spec, kind.SpecPath()
	f.Add(kind.LabelSelector(&spec.PodSelector, at.Child("podSelector")))
	for i := range spec.Ingress {
		checkPolicyRule(&f, spec.Ingress[i].Ports, spec.Ingress[i].From, "from", at.Child("ingress").Index(i))
	}
	for i := range spec.Egress {
		checkPolicyRule(&f, spec.Egress[i].Ports, spec.Egress[i].To, "to", at.Child("egress").Index(i))
	}
	f.Invalid(len(spec.PolicyTypes) > 2, at.Child("policyTypes"), spec.PolicyTypes, "may not specify more than two policyTypes")
	for i, policyType := range spec.PolicyTypes {
		kind.Known(&f, policyType, at.Child("policyTypes").Index(i), networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress)
	}
	return f.List
}

func checkPolicyRule(f *kind.Findings, ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, side string, at *field.Path) {
	for i := range ports {
		checkPolicyPort(f, &ports[i], at.Child("ports").Index(i))
	}
	for i, peer := range peers {
		here := at.Child(side).Index(i)
		f.Add(kind.LabelSelector(peer.PodSelector, here.Child("podSelector")))
		f.Add(kind.LabelSelector(peer.NamespaceSelector, here.Child("namespaceSelector")))
		selected := peer.PodSelector != nil || peer.NamespaceSelector != nil
		if peer.IPBlock != nil {
			checkIpBlock(f, peer.IPBlock, here.Child("ipBlock"))
		}
		f.Need(selected || peer.IPBlock != nil, here)
		f.Forbid(selected && peer.IPBlock != nil, here, "may not specify both ipBlock and another peer")
	}
}

func checkPolicyPort(f *kind.Findings, port *networkingv1.NetworkPolicyPort, at *field.Path) {
	kind.Chosen(f, port.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	end := at.Child("endPort")
	switch {
	case port.Port == nil:
		f.Invalid(port.EndPort != nil, end, port.EndPort, "may not be specified when `port` is not specified")
		return
	case port.Port.Type == intstr.String:
		f.Invalid(port.EndPort != nil, end, port.EndPort, "may not be specified when `port` is non-numeric")
	case port.EndPort != nil:
		f.Invalid(*port.EndPort < port.Port.IntVal, end, *port.EndPort, "must be greater than or equal to `port`")
		f.Messages(validation.IsValidPortNum(int(*port.EndPort)), *port.EndPort, end)
	}
	podspec.CheckPort(f, *port.Port, at.Child("port"))
}

func checkIpBlock(f *kind.Findings, block *networkingv1.IPBlock, at *field.Path) {
	if !f.Text(block.CIDR, at.Child("cidr")) {
		return
	}
	f.Add(validation.IsValidCIDRForLegacyField(at.Child("cidr"), block.CIDR, true, nil))
	all, err := netip.ParsePrefix(block.CIDR)
	if err != nil {
		return
	}
	for i, except := range block.Except {
		here := at.Child("except").Index(i)
		f.Add(validation.IsValidCIDRForLegacyField(here, except, true, nil))
		if part, err := netip.ParsePrefix(except); err == nil {
			f.Invalid(!all.Contains(part.Addr()) || all.Bits() >= part.Bits(), here, except, "must be a strict subset of `cidr`")
		}
	}
}
