// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// prepareStatefulSet drops the fields of features that are off.
func prepareStatefulSet(_ context.Context, s, _ *appsv1.StatefulSet) {
	podspec.DropDisabled(&s.Spec.Template.Spec)
	if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		rolling.MaxUnavailable = nil
	}
}

// The rules are those of kube-apiserver's pkg/apis/apps/validation/validation.go.

// validateStatefulSet checks a StatefulSet. The template of its Pods may change, their identity may not.
func validateStatefulSet(s, old *appsv1.StatefulSet) field.ErrorList {
	spec, path := &s.Spec, kind.SpecPath()
	errs := kind.NotNegative(spec.Replicas, path.Child("replicas"))
	errs = append(errs, kind.NotNegative(&spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	if spec.Ordinals != nil {
		errs = append(errs, kind.NotNegative(&spec.Ordinals.Start, path.Child("ordinals.start"))...)
	}
	errs = append(errs, kind.TemplateSelector(spec.Selector, spec.Template.Labels, path)...)
	errs = append(errs, podspec.ValidateTemplate(templateWithClaims(spec), path.Child("template"), corev1.RestartPolicyAlways)...)
	if spec.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("template", "spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in StatefulSet is not Supported"))
	}
	if policy := spec.PodManagementPolicy; policy != appsv1.OrderedReadyPodManagement && policy != appsv1.ParallelPodManagement {
		errs = append(errs, field.Invalid(path.Child("podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'"))
	}
	errs = append(errs, statefulSetStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		errs = append(errs, claimRetention(policy.WhenDeleted, path.Child("persistentVolumeClaimRetentionPolicy", "whenDeleted"))...)
		errs = append(errs, claimRetention(policy.WhenScaled, path.Child("persistentVolumeClaimRetentionPolicy", "whenScaled"))...)
	}
	if old != nil {
		return append(errs, keptStatefulSet(spec, &old.Spec, path)...)
	}
	for i := range spec.VolumeClaimTemplates {
		errs = append(errs, podspec.ValidateClaimSpec(&spec.VolumeClaimTemplates[i].Spec, path.Child("volumeClaimTemplates").Index(i).Child("spec"))...)
	}
	if spec.ServiceName != "" {
		errs = append(errs, kind.InvalidIf(validation.IsDNS1123Label(spec.ServiceName), spec.ServiceName, path.Child("serviceName"))...)
	}
	return errs
}

// templateWithClaims is the template as the controller makes Pods of it, as far as validation looks: a claim is mounted like
// a volume, and wins over a volume of its name; the host names are the controller's. It shares memory with spec.
func templateWithClaims(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	template := spec.Template
	template.Spec.Hostname, template.Spec.Subdomain = "", ""
	var volumes []corev1.Volume
	named := func(name string) func(corev1.Volume) bool {
		return func(v corev1.Volume) bool { return v.Name == name }
	}
	for _, claim := range spec.VolumeClaimTemplates {
		if slices.ContainsFunc(volumes, named(claim.Name)) {
			continue
		}
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}
		volumes = append(volumes, corev1.Volume{Name: claim.Name, VolumeSource: source})
	}
	claims := volumes
	for _, volume := range spec.Template.Spec.Volumes {
		if !slices.ContainsFunc(claims, named(volume.Name)) {
			volumes = append(volumes, volume)
		}
	}
	template.Spec.Volumes = volumes
	return &template
}

func statefulSetStrategy(strategy *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strategy.Type != appsv1.RollingUpdateStatefulSetStrategyType && strategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		errs = append(errs, field.Invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'"))
	}
	rolling, path := strategy.RollingUpdate, path.Child("rollingUpdate")
	switch {
	case rolling == nil:
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		errs = append(errs, field.Invalid(path, rolling, "only allowed for updateStrategy 'RollingUpdate'"))
	default:
		errs = append(errs, kind.NotNegative(rolling.Partition, path.Child("partition"))...)
	}
	return errs
}

func claimRetention(policy appsv1.PersistentVolumeClaimRetentionPolicyType, path *field.Path) field.ErrorList {
	return kind.OneOf(policy, path, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
}

// keptStatefulSet refuses a change of anything but what may change.
func keptStatefulSet(spec, old *appsv1.StatefulSetSpec, path *field.Path) field.ErrorList {
	same := spec.DeepCopy()
	same.Replicas, same.Template, same.UpdateStrategy = old.Replicas, old.Template, old.UpdateStrategy
	same.MinReadySeconds, same.Ordinals = old.MinReadySeconds, old.Ordinals
	same.RevisionHistoryLimit = old.RevisionHistoryLimit
	same.PersistentVolumeClaimRetentionPolicy = old.PersistentVolumeClaimRetentionPolicy
	if apiequality.Semantic.DeepEqual(same, old) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "+
		"'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")}
}
