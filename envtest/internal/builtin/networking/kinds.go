// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func NetworkingKinds() []*kind.Kind {
	networking := func(kind string) schema.GroupVersionKind { return networkingv1.SchemeGroupVersion.WithKind(kind) }
	return []*kind.Kind{
		{
			GVK: networking("Ingress"), Resource: "ingresses", Short: []string{"ing"},
			Rules: kind.Rules{Status: true, Generation: true},
			Hooks: kind.Hooks{Validate: kind.TypedCheck(validateIngress), ValidateStatus: kind.TypedCheck(validateIngressStatus)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnIngress), Status: kind.TypedWarn(warnIngressStatus)},
			Table: kind.Show("Class,Hosts,Address,Ports,Age", ingressCells),
		},
		{
			GVK: networking("IngressClass"), Resource: "ingressclasses", Cluster: true,
			Rules: kind.Rules{Generation: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultIngressClass), Validate: kind.TypedCheck(validateIngressClass)},
			Table: kind.Show("Controller,Parameters,Age", ingressClassCells),
		},
		{
			GVK: networking("NetworkPolicy"), Resource: "networkpolicies", Short: []string{"netpol"},
			Rules: kind.Rules{Generation: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultNetworkPolicy), Validate: kind.TypedCheck(validateNetworkPolicy)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnNetworkPolicy)},
			Table: kind.Show("Pod-Selector,Age", networkPolicyCells),
		},
		{
			GVK: networking("ServiceCIDR"), Resource: "servicecidrs", Cluster: true,
			Rules: kind.Rules{Status: true, StatusKeeps: []string{"metadata"}},
			Hooks: kind.Hooks{Validate: kind.TypedCheck(validateServiceCIDR)},
			Table: kind.Show("CIDRs,Age", serviceCIDRCells),
		},
		{
			GVK: networking("IPAddress"), Resource: "ipaddresses", Short: []string{"ip"}, Cluster: true,
			Rules: kind.Rules{Names: ipAddressName},
			Hooks: kind.Hooks{Validate: kind.TypedCheck(validateIPAddress)},
			Table: kind.Show("ParentRef", ipAddressCells),
		},
	}
}
