// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func namespaceCells(ns *corev1.Namespace) []any {
	return []any{string(ns.Status.Phase), kind.AgeOf(ns)}
}

func configMapCells(cm *corev1.ConfigMap) []any {
	return []any{int64(len(cm.Data) + len(cm.BinaryData)), kind.AgeOf(cm)}
}

func secretCells(secret *corev1.Secret) []any {
	return []any{string(secret.Type), int64(len(secret.Data)), kind.AgeOf(secret)}
}

func serviceAccountCells(sa *corev1.ServiceAccount) []any { return []any{kind.AgeOf(sa)} }

func persistentVolumeCells(pv *corev1.PersistentVolume) []any {
	claim := ""
	if ref := pv.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	phase := string(pv.Status.Phase)
	if pv.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	return []any{
		capacity.String(), kind.ShortModes(pv.Spec.AccessModes), string(pv.Spec.PersistentVolumeReclaimPolicy), phase, claim,
		ClassOf(pv.Annotations, &pv.Spec.StorageClassName), kind.Value(pv.Spec.VolumeAttributesClassName, "<unset>"), pv.Status.Reason, kind.AgeOf(pv),
		kind.Value(pv.Spec.VolumeMode, "<unset>"),
	}
}

func persistentVolumeClaimCells(pvc *corev1.PersistentVolumeClaim) []any {
	phase := string(pvc.Status.Phase)
	if pvc.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity, modes := "", ""
	if pvc.Spec.VolumeName != "" {
		storage := pvc.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = storage.String(), kind.ShortModes(pvc.Status.AccessModes)
	}
	return []any{
		phase, pvc.Spec.VolumeName, capacity, modes, ClassOf(pvc.Annotations, pvc.Spec.StorageClassName),
		kind.Value(pvc.Spec.VolumeAttributesClassName, "<unset>"), kind.AgeOf(pvc), kind.Value(pvc.Spec.VolumeMode, "<unset>"),
	}
}

func resourceQuotaCells(quota *corev1.ResourceQuota) []any {
	var requests, limits []string
	for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
		used, hard := quota.Status.Used[name], quota.Status.Hard[name]
		entry := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits.") {
			limits = append(limits, entry)
		} else {
			requests = append(requests, entry)
		}
	}
	return []any{strings.Join(requests, ", "), strings.Join(limits, ", "), kind.AgeOf(quota)}
}
