// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func warnIngress(w *kind.Warnings, ingress, _ *networkingv1.Ingress) {
	const outdated = "kubernetes.io/ingress.class"
	_, given := ingress.Annotations[outdated]
	w.SayIf(w.Created && given && ingress.Spec.IngressClassName == nil, "annotation %q is deprecated, please use 'spec.ingressClassName' instead", outdated)
}

func warnIngressStatus(w *kind.Warnings, ingress, _ *networkingv1.Ingress) {
	for i, in := range ingress.Status.LoadBalancer.Ingress {
		w.IP(in.IP, field.NewPath("status", "loadBalancer", "ingress").Index(i))
	}
}

func warnNetworkPolicy(w *kind.Warnings, policy, _ *networkingv1.NetworkPolicy) {
	peers := func(peers []networkingv1.NetworkPolicyPeer, at *field.Path) {
		for i, peer := range peers {
			if block := peer.IPBlock; block != nil {
				at := at.Index(i).Child("ipBlock")
				w.CIDR(block.CIDR, at.Child("cidr"))
				w.CIDRs(block.Except, at.Child("except"))
			}
		}
	}
	for i, rule := range policy.Spec.Ingress {
		peers(rule.From, kind.SpecPath("ingress").Index(i).Child("from"))
	}
	for i, rule := range policy.Spec.Egress {
		peers(rule.To, kind.SpecPath("egress").Index(i).Child("to"))
	}
}
