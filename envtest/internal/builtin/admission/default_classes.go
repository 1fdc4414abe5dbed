// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/core"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/storage"
)

// storageClasses are the plugins DefaultStorageClass and PersistentVolumeClaimResize.
type storageClasses struct{ store *kind.Store }

// setDefault gives a new claim that names no class the default one: of several the newest, and of these the first by name.
func (s storageClasses) setDefault(ctx context.Context, a admission.Attributes) error {
	pvc := kind.MustBe[*corev1.PersistentVolumeClaim](a.GetObject())
	if _, annotated := pvc.Annotations[corev1.BetaStorageClassAnnotation]; annotated || pvc.Spec.StorageClassName != nil {
		return nil
	}
	list, err := kind.ListAll[*storagev1.StorageClassList](ctx, s.store)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	var chosen *metav1.ObjectMeta
	for i := range list.Items {
		chosen = laterDefault(chosen, &list.Items[i].ObjectMeta, storage.DefaultClass, storage.DefaultClassBeta)
	}
	if chosen != nil {
		pvc.Spec.StorageClassName = &chosen.Name
	}
	return nil
}

// laterDefault returns class if one of the annotations makes it the default and it is newer than best, or as old and before it
// by name; and best otherwise, which may be nil.
func laterDefault(best, class *metav1.ObjectMeta, annotations ...string) *metav1.ObjectMeta {
	switch {
	case !kind.IsDefault(class, annotations...):
		return best
	case best == nil, best.CreationTimestamp.Before(&class.CreationTimestamp):
		return class
	case best.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < best.Name:
		return class
	}
	return best
}

// checkResize refuses to enlarge a claim whose class does not say that this works.
func (s storageClasses) checkResize(ctx context.Context, a admission.Attributes) error {
	pvc, old := kind.MustBe[*corev1.PersistentVolumeClaim](a.GetObject()), kind.MustBe[*corev1.PersistentVolumeClaim](a.GetOldObject())
	size, was := pvc.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(was) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		//lint:ignore ST1005 the words are kube-apiserver's
		return admission.NewForbidden(a, errors.New("Only bound persistent volume claims can be expanded"))
	}
	if name := core.ClassOf(pvc.Annotations, pvc.Spec.StorageClassName); name != "" {
		class, err := kind.Cached[*storagev1.StorageClass](ctx, s.store, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("look up the storage class %s: %w", name, err)
		}
		if err == nil && kind.IsTrue(class.AllowVolumeExpansion) {
			return nil
		}
	}
	return admission.NewForbidden(a, errors.New("only dynamically provisioned pvc can be resized and "+
		"the storageclass that provisions the pvc must support resize"))
}

// ingressClasses is the plugin DefaultIngressClass.
type ingressClasses struct{ store *kind.Store }

// setDefault gives a new Ingress that names no class the default one.
func (s ingressClasses) setDefault(ctx context.Context, a admission.Attributes) error {
	ingress := kind.MustBe[*networkingv1.Ingress](a.GetObject())
	if _, annotated := ingress.Annotations["kubernetes.io/ingress.class"]; annotated || ingress.Spec.IngressClassName != nil {
		return nil
	}
	list, err := kind.ListAll[*networkingv1.IngressClassList](ctx, s.store)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	var chosen *metav1.ObjectMeta
	for i := range list.Items {
		chosen = laterDefault(chosen, &list.Items[i].ObjectMeta, networkingv1.AnnotationIsDefaultIngressClass)
	}
	if chosen != nil {
		ingress.Spec.IngressClassName = &chosen.Name
	}
	return nil
}
