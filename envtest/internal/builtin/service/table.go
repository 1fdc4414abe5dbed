// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func ServiceFields(svc *corev1.Service, set fields.Set) {
	set["spec.clusterIP"] = svc.Spec.ClusterIP
	set["spec.type"] = string(svc.Spec.Type)
}

func ServiceCells(svc *corev1.Service) []any {
	var ports []string
	for _, port := range svc.Spec.Ports {
		number := strconv.Itoa(int(port.Port))
		if port.NodePort > 0 {
			number += ":" + strconv.Itoa(int(port.NodePort))
		}
		ports = append(ports, number+"/"+string(port.Protocol))
	}
	return []any{
		string(svc.Spec.Type), kind.OrNone(svc.Spec.ClusterIP), serviceExternal(svc), kind.OrNone(strings.Join(ports, ",")), kind.AgeOf(svc),
		labels.FormatLabels(svc.Spec.Selector),
	}
}

// serviceExternal shows where a Service is reached from outside.
func serviceExternal(svc *corev1.Service) string {
	switch svc.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return svc.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		var addresses []string
		for _, ingress := range svc.Status.LoadBalancer.Ingress {
			addresses = append(addresses, kind.Or(ingress.IP, ingress.Hostname))
		}
		return kind.Or(strings.Join(append(addresses, svc.Spec.ExternalIPs...), ","), "<pending>")
	default:
		return kind.OrNone(strings.Join(svc.Spec.ExternalIPs, ","))
	}
}
