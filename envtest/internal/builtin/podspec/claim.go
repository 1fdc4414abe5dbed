// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func CheckAccessModes(f *kind.Findings, modes []corev1.PersistentVolumeAccessMode, at *field.Path) {
	f.Need(len(modes) > 0, at)
	for _, mode := range modes {
		kind.Known(f, mode, at, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
	}
	others := func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadOnlyMany || mode == corev1.ReadWriteMany || mode == corev1.ReadWriteOnce
	}
	f.Forbid(slices.Contains(modes, corev1.ReadWriteOncePod) && slices.ContainsFunc(modes, others), at,
		"may not use ReadWriteOncePod with other access modes")
}

// ValidateClaimSpec checks a claim, or a template for claims.
func ValidateClaimSpec(spec *corev1.PersistentVolumeClaimSpec, at *field.Path) field.ErrorList {
	var f kind.Findings
	CheckAccessModes(&f, spec.AccessModes, at.Child("accessModes"))
	f.Add(kind.LabelSelector(spec.Selector, at.Child("selector")))
	storage, ok := spec.Resources.Requests[corev1.ResourceStorage]
	size := at.Child("resources").Key(string(corev1.ResourceStorage))
	f.Need(ok, size)
	f.Invalid(ok && storage.Sign() <= 0, size, storage.String(), "must be greater than zero")
	for _, class := range []struct {
		name  string
		value *string
	}{{"storageClassName", spec.StorageClassName}, {"volumeAttributesClassName", spec.VolumeAttributesClassName}} {
		if class.value != nil && *class.value != "" {
			f.Subdomain(*class.value, at.Child(class.name))
		}
	}
	kind.Chosen(&f, spec.VolumeMode, at.Child("volumeMode"), corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	if s := spec.DataSource; s != nil {
		checkDataSource(&f, s.APIGroup, s.Kind, s.Name, at.Child("dataSource"))
	}
	ref := spec.DataSourceRef
	if ref == nil {
		return f.List
	}
	checkDataSource(&f, ref.APIGroup, ref.Kind, ref.Name, at.Child("dataSourceRef"))
	elsewhere := ref.Namespace != nil && *ref.Namespace != ""
	if elsewhere {
		f.Messages(apivalidation.ValidateNamespaceName(*ref.Namespace, false), *ref.Namespace, at.Child("dataSourceRef", "namespace"))
	}
	if s := spec.DataSource; s != nil {
		f.Invalid(elsewhere, at, at.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified")
		same := reflect.DeepEqual(s.APIGroup, ref.APIGroup) && s.Kind == ref.Kind && s.Name == ref.Name
		f.Invalid(!elsewhere && !same, at, at.Child("dataSource"), "must match dataSourceRef")
	}
	return f.List
}

func checkDataSource(f *kind.Findings, group *string, kind, name string, at *field.Path) {
	f.Text(name, at.Child("name"))
	f.Text(kind, at.Child("kind"))
	if group == nil || *group == "" {
		f.Invalid(kind != "PersistentVolumeClaim", at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
		return
	}
	f.Subdomain(*group, at.Child("apiGroup"))
}

// checkTemplateMetadata checks the metadata of what is made for something else: labels and annotations.
func checkTemplateMetadata(f *kind.Findings, meta any, at *field.Path) {
	v := reflect.ValueOf(meta)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Labels" && name != "Annotations" {
			f.Forbid(!v.Field(i).IsZero(), at.Child(strings.ToLower(name[:1])+name[1:]), "cannot be set")
		}
	}
}

// CheckClaimResource checks the name of a resource of a claim: storage, or a name outside of
// Kubernetes' own.
func CheckClaimResource(f *kind.Findings, name corev1.ResourceName, at *field.Path) {
	wrong := validation.IsQualifiedName(string(name))
	if f.Messages(wrong, name, at); len(wrong) == 0 && IsNative(name) {
		kind.Known(f, name, at, corev1.ResourceStorage)
	}
}

const OutdatedStorageClass = `deprecated since v1.8; use "storageClassName" attribute instead`

// WarnClaim warns of a claim, or of a template of claims.
func WarnClaim(w *kind.Warnings, spec *corev1.PersistentVolumeClaimSpec, at *field.Path) {
	w.WholeBytes(spec.Resources.Requests, at.Child("resources", "requests"), corev1.ResourceStorage)
	w.WholeBytes(spec.Resources.Limits, at.Child("resources", "limits"), corev1.ResourceStorage)
}
