// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// checkNodeAnnotations checks the taints that a Node had in an annotation, and the Pods that it would rather not have.
func checkNodeAnnotations(f *kind.Findings, annotations map[string]string) {
	at := kind.AnnotationsPath()
	if taints, ok := kind.AnnotationJSON[[]corev1.Taint](f, annotations, corev1.TaintsAnnotationKey, at, at); ok {
		checkTaints(f, taints, at.Child(corev1.TaintsAnnotationKey))
	}
	avoid, _ := kind.AnnotationJSON[corev1.AvoidPods](f, annotations, corev1.PreferAvoidPodsAnnotationKey, at, at.Child("AvoidPods"))
	for i, entry := range avoid.PreferAvoidPods {
		at := at.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
		owner := entry.PodSignature.PodController
		if f.Need(owner != nil, at); owner != nil {
			f.Invalid(!kind.IsTrue(owner.Controller), at.Child("PodController", "Controller"), false, "must point to a controller")
		}
	}
}

// checkMountOptions refuses them in an annotation of a volume that cannot have some.
func checkMountOptions(f *kind.Findings, pv *corev1.PersistentVolume) {
	_, given := pv.Annotations[corev1.MountOptionAnnotation]
	s := &pv.Spec
	can := s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.Glusterfs != nil || s.NFS != nil || s.RBD != nil || s.Quobyte != nil ||
		s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil || s.AzureFile != nil || s.VsphereVolume != nil || s.AzureDisk != nil || s.PhotonPersistentDisk != nil
	f.Forbid(given && !can, kind.AnnotationsPath().Child(corev1.MountOptionAnnotation), "may not specify mount options for this volume type")
}

// checkClassAnnotation refuses to change the class that a claim has in its annotation, unless it becomes the field's. It reports whether
// the field may be set that was not.
func checkClassAnnotation(f *kind.Findings, now, was *corev1.PersistentVolumeClaim) (mayBeSet bool) {
	class, before := now.Annotations[corev1.BetaStorageClassAnnotation], was.Annotations[corev1.BetaStorageClassAnnotation]
	_, has := now.Annotations[corev1.BetaStorageClassAnnotation]
	_, had := was.Annotations[corev1.BetaStorageClassAnnotation]
	field, unset := now.Spec.StorageClassName, was.Spec.StorageClassName == nil
	mayBeSet = unset && field != nil && (!had || *field == before)
	becomes := mayBeSet && had && (!has || class == before)
	f.Invalid(!becomes && class != before, kind.AnnotationsPath().Child(corev1.BetaStorageClassAnnotation), class, "field is immutable")
	return mayBeSet
}

// checkNonConvertible refuses to change what an older version of a ReplicationController could not express.
func checkNonConvertible(f *kind.Findings, now, was *corev1.ReplicationController) {
	for _, key := range slices.Sorted(maps.Keys(was.Annotations)) {
		name, ok := strings.CutPrefix(key, corev1.NonConvertibleAnnotationPrefix+"/")
		switch {
		case !ok || strings.Contains(name, "/"):
		case strings.Contains(name, "selector"):
			changed := !apiequality.Semantic.DeepEqual(now.Spec.Selector, was.Spec.Selector)
			f.Invalid(changed, kind.SpecPath("selector"), now.Spec.Selector, "cannot update non-convertible selector")
		default:
			f.List = append(f.List, &field.Error{Type: field.ErrorTypeNotFound, BadValue: was.Annotations[key], Field: name, Detail: "unknown non-convertible field"})
		}
	}
}
