// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// Which class is the default says one of these annotations, of the value "true".
const (
	defaultStorage     = "storageclass.kubernetes.io/is-default-class"
	defaultStorageBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// storageClasses are the plugins DefaultStorageClass and PersistentVolumeClaimResize.
type storageClasses struct{ store *genericregistry.Store }

// setDefault gives a new claim that names no class the default one: of several the newest, and of these the first by name.
func (s storageClasses) setDefault(ctx context.Context, a admission.Attributes) error {
	pvc := mustBe[*corev1.PersistentVolumeClaim](a.GetObject())
	if _, annotated := pvc.Annotations[corev1.BetaStorageClassAnnotation]; annotated || pvc.Spec.StorageClassName != nil {
		return nil
	}
	list, err := listAll[*storagev1.StorageClassList](ctx, s.store)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	var chosen *metav1.ObjectMeta
	for i := range list.Items {
		chosen = laterDefault(chosen, &list.Items[i].ObjectMeta, defaultStorage, defaultStorageBeta)
	}
	if chosen != nil {
		pvc.Spec.StorageClassName = &chosen.Name
	}
	return nil
}

// isDefault says that one of the annotations marks a class as the default.
func isDefault(class *metav1.ObjectMeta, annotations ...string) bool {
	return slices.ContainsFunc(annotations, func(key string) bool { return class.Annotations[key] == "true" })
}

// classOf is the storage class of a volume or a claim. An annotation, which is older than the field, counts more.
func classOf(annotations map[string]string, field *string) string {
	if class, ok := annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return value(field, "")
}

// laterDefault returns class if one of the annotations makes it the default and it is newer than best, or as old and before it
// by name; and best otherwise, which may be nil.
func laterDefault(best, class *metav1.ObjectMeta, annotations ...string) *metav1.ObjectMeta {
	switch {
	case !isDefault(class, annotations...):
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
	pvc, old := mustBe[*corev1.PersistentVolumeClaim](a.GetObject()), mustBe[*corev1.PersistentVolumeClaim](a.GetOldObject())
	size, was := pvc.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(was) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		//lint:ignore ST1005 the words are kube-apiserver's
		return admission.NewForbidden(a, errors.New("Only bound persistent volume claims can be expanded"))
	}
	if name := classOf(pvc.Annotations, pvc.Spec.StorageClassName); name != "" {
		class, err := cached[*storagev1.StorageClass](ctx, s.store, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("look up the storage class %s: %w", name, err)
		}
		if err == nil && isTrue(class.AllowVolumeExpansion) {
			return nil
		}
	}
	return admission.NewForbidden(a, errors.New("only dynamically provisioned pvc can be resized and "+
		"the storageclass that provisions the pvc must support resize"))
}

// ingressClasses is the plugin DefaultIngressClass.
type ingressClasses struct{ store *genericregistry.Store }

// setDefault gives a new Ingress that names no class the default one.
func (s ingressClasses) setDefault(ctx context.Context, a admission.Attributes) error {
	ingress := mustBe[*networkingv1.Ingress](a.GetObject())
	if _, annotated := ingress.Annotations["kubernetes.io/ingress.class"]; annotated || ingress.Spec.IngressClassName != nil {
		return nil
	}
	list, err := listAll[*networkingv1.IngressClassList](ctx, s.store)
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
