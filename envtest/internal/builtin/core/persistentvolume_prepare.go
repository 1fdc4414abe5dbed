// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// preparePersistentVolume starts a new volume as pending, since now.
func preparePersistentVolume(_ context.Context, pv, old *corev1.PersistentVolume) {
	if old == nil {
		now := metav1.Now()
		pv.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
	}
}

// preparePersistentVolumeStatus notes when the phase changed, unless the client does.
func preparePersistentVolumeStatus(_ context.Context, pv, old *corev1.PersistentVolume) {
	since, before := pv.Status.LastPhaseTransitionTime, old.Status.LastPhaseTransitionTime
	switch {
	case pv.Status.Phase == old.Status.Phase && since == nil:
		pv.Status.LastPhaseTransitionTime = before
	case pv.Status.Phase != old.Status.Phase && (since == nil || since.Equal(before)):
		now := metav1.Now()
		pv.Status.LastPhaseTransitionTime = &now
	}
}

// preparePersistentVolumeClaim starts a new claim as pending, and keeps the two ways to name a data source alike. As on a
// kube-apiserver a source that the older one never knew is dropped, unless the claim names it in both ways or has one already.
func preparePersistentVolumeClaim(_ context.Context, pvc, old *corev1.PersistentVolumeClaim) {
	if old == nil {
		pvc.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	}
	if ref := pvc.Spec.DataSourceRef; ref != nil && ref.Namespace != nil && *ref.Namespace != "" && (old == nil || old.Spec.DataSourceRef == nil) {
		pvc.Spec.DataSourceRef = nil // of a feature that is off
	}
	settable := old == nil || old.Spec.DataSource == nil && old.Spec.DataSourceRef == nil
	if settable && pvc.Spec.DataSourceRef == nil && !isOldSource(pvc.Spec.DataSource) {
		pvc.Spec.DataSource = nil
	}
	source, ref := pvc.Spec.DataSource, pvc.Spec.DataSourceRef
	switch {
	case source != nil && ref == nil:
		pvc.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: source.APIGroup, Kind: source.Kind, Name: source.Name}
	case source == nil && ref != nil && (ref.Namespace == nil || *ref.Namespace == ""):
		pvc.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}

// isOldSource reports whether a data source is a claim or a snapshot, which were the first ones.
func isOldSource(source *corev1.TypedLocalObjectReference) bool {
	if source == nil {
		return false
	}
	group := ""
	if source.APIGroup != nil {
		group = *source.APIGroup
	}
	return group == "" && source.Kind == "PersistentVolumeClaim" || group == "snapshot.storage.k8s.io" && source.Kind == "VolumeSnapshot"
}
