// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func validateRole(role, _ *rbacv1.Role) field.ErrorList {
	return policyRules(role.Rules, true)
}

func validateClusterRole(role, _ *rbacv1.ClusterRole) field.ErrorList {
	errs := policyRules(role.Rules, false)
	if role.AggregationRule == nil {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(role.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector := &role.AggregationRule.ClusterRoleSelectors[i]
		errs = append(errs, kind.LabelSelector(selector, path.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), selector, "invalid label selector."))
		}
	}
	return errs
}

func policyRules(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		path := field.NewPath("rules").Index(i)
		if len(rule.Verbs) == 0 {
			errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
		}
		if len(rule.NonResourceURLs) > 0 {
			if namespaced {
				errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
			}
			if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
				errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		}
		if len(rule.APIGroups) == 0 {
			errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(rule.Resources) == 0 {
			errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}

func validateRoleBinding(binding, old *rbacv1.RoleBinding) field.ErrorList {
	errs := validateBound(binding.RoleRef, binding.Subjects, true)
	if old != nil && old.RoleRef != binding.RoleRef {
		errs = append(errs, field.Invalid(field.NewPath("roleRef"), binding.RoleRef, "cannot change roleRef"))
	}
	return errs
}

func validateClusterRoleBinding(binding, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := validateBound(binding.RoleRef, binding.Subjects, false)
	if old != nil && old.RoleRef != binding.RoleRef {
		errs = append(errs, field.Invalid(field.NewPath("roleRef"), binding.RoleRef, "cannot change roleRef"))
	}
	return errs
}

// validateBound checks what a binding binds. A cluster-wide one knows cluster roles only, and has no namespace of its own.
func validateBound(role rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	path := field.NewPath("roleRef")
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	errs := kind.OneOf(role.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)
	errs = append(errs, kind.OneOf(role.Kind, path.Child("kind"), kinds...)...)
	errs = append(errs, kind.Required(role.Name, path.Child("name"))...)
	for i, subject := range subjects {
		at := field.NewPath("subjects").Index(i)
		errs = append(errs, kind.Required(subject.Name, at.Child("name"))...)
		errs = append(errs, kind.OneOf(subject.Kind, at.Child("kind"), rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)...)
		switch {
		case subject.Kind == rbacv1.ServiceAccountKind && subject.Name != "":
			errs = append(errs, kind.InvalidIf(apivalidation.ValidateServiceAccountName(subject.Name, false), subject.Name, at.Child("name"))...)
			errs = append(errs, kind.OneOf(subject.APIGroup, at.Child("apiGroup"), "")...)
			if !namespaced {
				errs = append(errs, kind.Required(subject.Namespace, at.Child("namespace"))...)
			}
		case subject.Kind == rbacv1.UserKind, subject.Kind == rbacv1.GroupKind:
			errs = append(errs, kind.OneOf(subject.APIGroup, at.Child("apiGroup"), rbacv1.GroupName)...)
		}
	}
	return errs
}
