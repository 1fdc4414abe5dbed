// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func defaultConfigMap(cm *corev1.ConfigMap) {
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
}

// defaultSecret sets the type, and folds the write-only stringData into data.
func defaultSecret(secret *corev1.Secret) {
	kind.Unset(&secret.Type, corev1.SecretTypeOpaque)
	if len(secret.StringData) > 0 && secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

// defaultLimitRange derives the defaults for containers from their minima and maxima.
func defaultLimitRange(limits *corev1.LimitRange) {
	kind.Each(limits.Spec.Limits, func(item *corev1.LimitRangeItem) {
		if item.Type == corev1.LimitTypeContainer {
			fill(&item.Default, item.Max)
			fill(&item.DefaultRequest, item.Default)
			fill(&item.DefaultRequest, item.Min)
		}
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			podspec.RoundUp(list)
		}
	})
}

func defaultResourceQuota(quota *corev1.ResourceQuota) {
	podspec.RoundUp(quota.Spec.Hard)
	podspec.RoundUp(quota.Status.Hard)
	podspec.RoundUp(quota.Status.Used)
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
