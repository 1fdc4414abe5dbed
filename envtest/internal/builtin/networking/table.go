// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package networking

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func ingressCells(ingress *networkingv1.Ingress) []any {
	var hosts []string
	addresses := sets.New[string]()
	for _, rule := range ingress.Spec.Rules {
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	for _, entry := range ingress.Status.LoadBalancer.Ingress {
		addresses.Insert(kind.Or(entry.IP, entry.Hostname))
	}
	addresses.Delete("")
	ports := "80"
	if len(ingress.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	shown := kind.Or(kind.SomeOf(hosts, func(n int) string { return fmt.Sprintf(" + %d more...", n) }), "*")
	return []any{kind.Value(ingress.Spec.IngressClassName, "<none>"), shown, strings.Join(sets.List(addresses), ","), ports, kind.AgeOf(ingress)}
}

func ingressClassCells(class *networkingv1.IngressClass) []any {
	parameters := "<none>"
	if p := class.Spec.Parameters; p != nil {
		parameters = p.Kind
		if p.APIGroup != nil {
			parameters += "." + *p.APIGroup
		}
		parameters += "/" + p.Name
	}
	return []any{class.Spec.Controller, parameters, kind.AgeOf(class)}
}

func networkPolicyCells(policy *networkingv1.NetworkPolicy) []any {
	return []any{metav1.FormatLabelSelector(&policy.Spec.PodSelector), kind.AgeOf(policy)}
}

func serviceCIDRCells(cidr *networkingv1.ServiceCIDR) []any {
	return []any{strings.Join(cidr.Spec.CIDRs, ","), kind.AgeOf(cidr)}
}

func ipAddressCells(address *networkingv1.IPAddress) []any {
	parent := "<none>"
	if ref := address.Spec.ParentRef; ref != nil {
		parent = strings.ToLower(schema.GroupResource{Group: ref.Group, Resource: ref.Resource}.String())
		if ref.Namespace != "" {
			parent += "/" + ref.Namespace
		}
		parent += "/" + ref.Name
	}
	return []any{parent, kind.AgeOf(address)}
}
