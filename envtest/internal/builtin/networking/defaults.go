// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func defaultIngressClass(class *networkingv1.IngressClass) {
	if class.Spec.Parameters != nil {
		kind.Missing(&class.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

// defaultNetworkPolicy makes a policy without types one for ingress, and for egress if it has such rules.
func defaultNetworkPolicy(policy *networkingv1.NetworkPolicy) {
	if len(policy.Spec.PolicyTypes) == 0 {
		policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(policy.Spec.Egress) > 0 {
			policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	tcp := func(p *networkingv1.NetworkPolicyPort) { kind.Missing(&p.Protocol, corev1.ProtocolTCP) }
	kind.Each(policy.Spec.Ingress, func(rule *networkingv1.NetworkPolicyIngressRule) { kind.Each(rule.Ports, tcp) })
	kind.Each(policy.Spec.Egress, func(rule *networkingv1.NetworkPolicyEgressRule) { kind.Each(rule.Ports, tcp) })
}
