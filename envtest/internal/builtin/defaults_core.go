// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func defaultConfigMap(cm *corev1.ConfigMap) {
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
}

// defaultSecret sets the type, and folds the write-only stringData into data.
func defaultSecret(secret *corev1.Secret) {
	unset(&secret.Type, corev1.SecretTypeOpaque)
	if len(secret.StringData) > 0 && secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

func defaultService(svc *corev1.Service) {
	spec := &svc.Spec
	unset(&spec.Type, corev1.ServiceTypeClusterIP)
	unset(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		missing(&spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		missing(&spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		missing(&spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	each(spec.Ports, func(p *corev1.ServicePort) {
		unset(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	})
	if hasNodePorts(svc) || spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0 {
		unset(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if hasClusterIP(svc) {
		missing(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		missing(&spec.AllocateLoadBalancerNodePorts, true)
		each(svc.Status.LoadBalancer.Ingress, func(i *corev1.LoadBalancerIngress) {
			if i.IP != "" {
				missing(&i.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		})
	}
}

//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
func defaultEndpoints(endpoints *corev1.Endpoints) {
	//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
	each(endpoints.Subsets, func(s *corev1.EndpointSubset) {
		each(s.Ports, func(p *corev1.EndpointPort) { unset(&p.Protocol, corev1.ProtocolTCP) })
	})
}

func defaultNode(node *corev1.Node) {
	// The two ways to write the addresses for Pods say the same; the old one wins.
	spec := &node.Spec
	switch {
	case spec.PodCIDR == "" && len(spec.PodCIDRs) > 0:
		spec.PodCIDR = spec.PodCIDRs[0]
	case spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR):
		spec.PodCIDRs = []string{spec.PodCIDR}
	}
	roundUp(node.Status.Capacity)
	roundUp(node.Status.Allocatable)
	if node.Status.Allocatable == nil && node.Status.Capacity != nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
}

func defaultReplicationController(rc *corev1.ReplicationController) {
	missing(&rc.Spec.Replicas, 1)
	if rc.Spec.Template == nil {
		return
	}
	defaultTemplate(rc.Spec.Template)
	labels := rc.Spec.Template.Labels
	if labels == nil {
		return
	}
	if len(rc.Spec.Selector) == 0 {
		rc.Spec.Selector = labels
	}
	if len(rc.Labels) == 0 {
		rc.Labels = labels
	}
}

// defaultLimitRange derives the defaults for containers from their minima and maxima.
func defaultLimitRange(limits *corev1.LimitRange) {
	each(limits.Spec.Limits, func(item *corev1.LimitRangeItem) {
		if item.Type == corev1.LimitTypeContainer {
			fill(&item.Default, item.Max)
			fill(&item.DefaultRequest, item.Default)
			fill(&item.DefaultRequest, item.Min)
		}
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			roundUp(list)
		}
	})
}

func defaultResourceQuota(quota *corev1.ResourceQuota) {
	roundUp(quota.Spec.Hard)
	roundUp(quota.Status.Hard)
	roundUp(quota.Status.Used)
}

// fill copies the entries of from that list does not have.
func fill(list *corev1.ResourceList, from corev1.ResourceList) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	for name, quantity := range from {
		if _, ok := (*list)[name]; !ok {
			(*list)[name] = quantity.DeepCopy()
		}
	}
}

func defaultPodTemplate(template *corev1.PodTemplate) { defaultTemplate(&template.Template) }
