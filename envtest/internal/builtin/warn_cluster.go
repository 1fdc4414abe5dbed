// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func warnEndpointSlice(w *warnings, slice, _ *discoveryv1.EndpointSlice) {
	w.sayIf(w.created && slice.AddressType == discoveryv1.AddressTypeFQDN, "spec.addressType: FQDN endpoints are deprecated")
}

func warnIngress(w *warnings, ingress, _ *networkingv1.Ingress) {
	const outdated = "kubernetes.io/ingress.class"
	_, given := ingress.Annotations[outdated]
	w.sayIf(w.created && given && ingress.Spec.IngressClassName == nil, "annotation %q is deprecated, please use 'spec.ingressClassName' instead", outdated)
}

func warnIngressStatus(w *warnings, ingress, _ *networkingv1.Ingress) {
	for i, in := range ingress.Status.LoadBalancer.Ingress {
		w.ip(in.IP, field.NewPath("status", "loadBalancer", "ingress").Index(i))
	}
}

func warnNetworkPolicy(w *warnings, policy, _ *networkingv1.NetworkPolicy) {
	peers := func(peers []networkingv1.NetworkPolicyPeer, at *field.Path) {
		for i, peer := range peers {
			if block := peer.IPBlock; block != nil {
				at := at.Index(i).Child("ipBlock")
				w.cidr(block.CIDR, at.Child("cidr"))
				w.cidrs(block.Except, at.Child("except"))
			}
		}
	}
	for i, rule := range policy.Spec.Ingress {
		peers(rule.From, specPath("ingress").Index(i).Child("from"))
	}
	for i, rule := range policy.Spec.Egress {
		peers(rule.To, specPath("egress").Index(i).Child("to"))
	}
}

func warnRuntimeClass(w *warnings, class, _ *nodev1.RuntimeClass) {
	if class.Scheduling != nil {
		for key := range class.Scheduling.NodeSelector {
			w.nodeLabel(key, field.NewPath("scheduling", "nodeSelector"))
		}
	}
}

func warnResourceSlice(w *warnings, slice, _ *resourcev1.ResourceSlice) {
	driver := slice.Spec.Driver
	w.sayIf(driver != strings.ToLower(driver), "spec.driver: driver names should be lowercase; %q contains uppercase characters", driver)
}

func warnStorageClass(w *warnings, class, _ *storagev1.StorageClass) {
	for i, term := range class.AllowedTopologies {
		for j, e := range term.MatchLabelExpressions {
			w.nodeLabel(e.Key, field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key"))
		}
	}
}

func warnCSIStorageCapacity(w *warnings, capacity, _ *storagev1.CSIStorageCapacity) {
	selector, at := capacity.NodeTopology, field.NewPath("nodeTopology")
	if selector == nil {
		return
	}
	for i, e := range selector.MatchExpressions {
		w.nodeKey(e.Key, at.Child("matchExpressions").Index(i).Child("key"))
	}
	for key := range selector.MatchLabels {
		w.nodeLabel(key, at.Child("matchLabels").Child(key))
	}
}

// warnCSIDriver warns of tokens that may be logged.
func warnCSIDriver(w *warnings, driver, old *storagev1.CSIDriver) {
	tokens := driver.Spec.TokenRequests
	same := old != nil && apiequality.Semantic.DeepEqual(tokens, old.Spec.TokenRequests)
	w.sayIf(len(tokens) > 0 && !same && driver.Spec.ServiceAccountTokenInSecrets == nil, "spec.serviceAccountTokenInSecrets is unset; "+
		"if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes")
}
