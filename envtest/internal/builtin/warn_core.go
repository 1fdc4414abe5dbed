// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"crypto/tls"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// warnService warns of what a Service has and does not use, and of what it had better not use.
func warnService(w *warnings, service, _ *corev1.Service) {
	const ignored = "spec.%s is ignored for headless services"
	spec, at := &service.Spec, specPath()
	if _, ok := service.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok {
		w.say("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode)
	}
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		w.ips(spec.ClusterIPs, at.Child("clusterIPs"))
	}
	external := spec.Type == corev1.ServiceTypeExternalName
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	w.sayIf(headless && spec.LoadBalancerIP != "", ignored, "loadBalancerIP")
	w.sayIf(headless && len(spec.ExternalIPs) > 0, ignored, "externalIPs")
	w.sayIf(headless && spec.SessionAffinity != corev1.ServiceAffinityNone, ignored, "SessionAffinity")
	w.ips(spec.ExternalIPs, at.Child("externalIPs"))
	w.sayIf(len(spec.ExternalIPs) > 0 && !headless && !external, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	w.ip(spec.LoadBalancerIP, at.Child("loadBalancerIP"))
	w.cidrs(spec.LoadBalancerSourceRanges, at.Child("loadBalancerSourceRanges"))
	w.sayIf(external && len(spec.ExternalIPs) > 0, "spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName)
	w.sayIf(!external && spec.ExternalName != "", "spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName)
	w.sayIf(value(spec.TrafficDistribution, "") == corev1.ServiceTrafficDistributionPreferClose, "spec.trafficDistribution: %q is deprecated; use %q",
		corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone)
}

func warnServiceStatus(w *warnings, service, _ *corev1.Service) {
	for i, ingress := range service.Status.LoadBalancer.Ingress {
		w.ip(ingress.IP, field.NewPath("status", "loadBalancer", "ingress").Index(i))
	}
}

// warnEndpoints leaves out those that the controller has made.
//
//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
func warnEndpoints(w *warnings, endpoints, _ *corev1.Endpoints) {
	if endpoints.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return
	}
	for i, subset := range endpoints.Subsets {
		at := field.NewPath("subsets").Index(i)
		for j, address := range subset.Addresses {
			w.ip(address.IP, at.Child("addresses").Index(j).Child("ip"))
		}
		for j, address := range subset.NotReadyAddresses {
			w.ip(address.IP, at.Child("notReadyAddresses").Index(j).Child("ip"))
		}
	}
}

func warnNode(w *warnings, node, _ *corev1.Node) {
	w.sayIf(node.Spec.DoNotUseExternalID != "", "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	w.cidrs(node.Spec.PodCIDRs, specPath("podCIDRs"))
}

// warnSecret warns of a certificate that is not of its key.
func warnSecret(w *warnings, secret, _ *corev1.Secret) {
	if secret.Type != corev1.SecretTypeTLS {
		return
	}
	if _, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		w.say("%s", err)
	}
}

// warnServiceAccount warns of an annotation that the request brings.
func warnServiceAccount(w *warnings, account, old *corev1.ServiceAccount) {
	const outdated = "kubernetes.io/enforce-mountable-secrets"
	if old != nil {
		if _, had := old.Annotations[outdated]; had {
			return
		}
	}
	w.outdatedAnnotations(account.Annotations, nil, [2]string{outdated, "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"})
}

// warnResourceQuota warns of requests that may be more than the limits.
func warnResourceQuota(w *warnings, quota, _ *corev1.ResourceQuota) {
	if !w.created {
		return
	}
	hard := quota.Spec.Hard
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		requests, limits := "requests."+name, "limits."+name
		if _, ok := hard[requests]; !ok && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			requests = name
		}
		request, requested := hard[requests]
		limit, limited := hard[limits]
		w.sayIf(requested && limited && request.Cmp(limit) > 0, "ResourceQuota %s (%s) should be less than %s (%s)",
			requests, request.String(), limits, limit.String())
	}
}

const outdatedStorageClass = `deprecated since v1.8; use "storageClassName" attribute instead`

func warnPersistentVolume(w *warnings, pv, _ *corev1.PersistentVolume) {
	w.outdatedAnnotations(pv.Annotations, nil, [][2]string{
		{corev1.BetaStorageClassAnnotation, outdatedStorageClass},
		{corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`},
	}...)
	w.sayIf(pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle, "spec.persistentVolumeReclaimPolicy: "+
		"The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	if affinity := pv.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		for i := range affinity.Required.NodeSelectorTerms {
			w.nodeTerm(&affinity.Required.NodeSelectorTerms[i], specPath("nodeAffinity", "required", "nodeSelectorTerms").Index(i))
		}
	}
	source := pv.Spec.PersistentVolumeSource
	source.Flocker, source.Quobyte = nil, nil // a kube-apiserver says nothing of them here
	w.volumeSource(source, specPath())
}

func warnPersistentVolumeClaim(w *warnings, claim, _ *corev1.PersistentVolumeClaim) {
	w.outdatedAnnotations(claim.Annotations, nil, [2]string{corev1.BetaStorageClassAnnotation, outdatedStorageClass})
	w.claim(&claim.Spec, specPath())
}

// claim warns of a claim, or of a template of claims.
func (w *warnings) claim(spec *corev1.PersistentVolumeClaimSpec, at *field.Path) {
	w.wholeBytes(spec.Resources.Requests, at.Child("resources", "requests"), corev1.ResourceStorage)
	w.wholeBytes(spec.Resources.Limits, at.Child("resources", "limits"), corev1.ResourceStorage)
}
