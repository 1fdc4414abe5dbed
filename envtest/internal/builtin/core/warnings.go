// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"crypto/tls"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// warnSecret warns of a certificate that is not of its key.
func warnSecret(w *kind.Warnings, secret, _ *corev1.Secret) {
	if secret.Type != corev1.SecretTypeTLS {
		return
	}
	if _, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		w.Say("%s", err)
	}
}

// warnServiceAccount warns of an annotation that the request brings.
func warnServiceAccount(w *kind.Warnings, account, old *corev1.ServiceAccount) {
	const outdated = "kubernetes.io/enforce-mountable-secrets"
	if old != nil {
		if _, had := old.Annotations[outdated]; had {
			return
		}
	}
	w.OutdatedAnnotations(account.Annotations, nil, [2]string{outdated, "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"})
}

// warnResourceQuota warns of requests that may be more than the limits.
func warnResourceQuota(w *kind.Warnings, quota, _ *corev1.ResourceQuota) {
	if !w.Created {
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
		w.SayIf(requested && limited && request.Cmp(limit) > 0, "ResourceQuota %s (%s) should be less than %s (%s)",
			requests, request.String(), limits, limit.String())
	}
}

func warnPersistentVolume(w *kind.Warnings, pv, _ *corev1.PersistentVolume) {
	w.OutdatedAnnotations(pv.Annotations, nil, [][2]string{
		{corev1.BetaStorageClassAnnotation, podspec.OutdatedStorageClass},
		{corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`},
	}...)
	w.SayIf(pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle, "spec.persistentVolumeReclaimPolicy: "+
		"The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	if affinity := pv.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		for i := range affinity.Required.NodeSelectorTerms {
			w.NodeTerm(&affinity.Required.NodeSelectorTerms[i], kind.SpecPath("nodeAffinity", "required", "nodeSelectorTerms").Index(i))
		}
	}
	source := pv.Spec.PersistentVolumeSource
	source.Flocker, source.Quobyte = nil, nil // a kube-apiserver says nothing of them here
	podspec.WarnVolumeSource(w, source, kind.SpecPath())
}

func warnPersistentVolumeClaim(w *kind.Warnings, claim, _ *corev1.PersistentVolumeClaim) {
	w.OutdatedAnnotations(claim.Annotations, nil, [2]string{corev1.BetaStorageClassAnnotation, podspec.OutdatedStorageClass})
	podspec.WarnClaim(w, &claim.Spec, kind.SpecPath())
}
