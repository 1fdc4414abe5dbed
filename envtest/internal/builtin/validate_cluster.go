// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateLease(lease, _ *coordinationv1.Lease) field.ErrorList {
	var errs field.ErrorList
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		errs = append(errs, field.Invalid(specPath("leaseDurationSeconds"), *seconds, "must be greater than 0"))
	}
	return append(errs, notNegative(lease.Spec.LeaseTransitions, specPath("leaseTransitions"))...)
}

func validatePodDisruptionBudget(budget, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	spec := &budget.Spec
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(specPath(), *spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, countOrPercent(spec.MinAvailable, specPath("minAvailable"))...)
	errs = append(errs, countOrPercent(spec.MaxUnavailable, specPath("maxUnavailable"))...)
	f := faults{list: errs}
	f.notAll(spec.MinAvailable, specPath("minAvailable"))
	f.notAll(spec.MaxUnavailable, specPath("maxUnavailable"))
	f.add(labelSelector(spec.Selector, specPath("selector")))
	chosen(&f, spec.UnhealthyPodEvictionPolicy, specPath("unhealthyPodEvictionPolicy"), policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	return f.list
}

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
		errs = append(errs, labelSelector(selector, path.Index(i))...)
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
	errs := oneOf(role.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)
	errs = append(errs, oneOf(role.Kind, path.Child("kind"), kinds...)...)
	errs = append(errs, required(role.Name, path.Child("name"))...)
	for i, subject := range subjects {
		at := field.NewPath("subjects").Index(i)
		errs = append(errs, required(subject.Name, at.Child("name"))...)
		errs = append(errs, oneOf(subject.Kind, at.Child("kind"), rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)...)
		switch {
		case subject.Kind == rbacv1.ServiceAccountKind && subject.Name != "":
			errs = append(errs, invalidIf(apivalidation.ValidateServiceAccountName(subject.Name, false), subject.Name, at.Child("name"))...)
			errs = append(errs, oneOf(subject.APIGroup, at.Child("apiGroup"), "")...)
			if !namespaced {
				errs = append(errs, required(subject.Namespace, at.Child("namespace"))...)
			}
		case subject.Kind == rbacv1.UserKind, subject.Kind == rbacv1.GroupKind:
			errs = append(errs, oneOf(subject.APIGroup, at.Child("apiGroup"), rbacv1.GroupName)...)
		}
	}
	return errs
}

func validatePodDisruptionBudgetStatus(budget, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	at := field.NewPath("status")
	f := faults{list: metavalidation.ValidateConditions(budget.Status.Conditions, at.Child("conditions"))}
	f.notNegative(int64(budget.Status.DisruptionsAllowed), at.Child("disruptionsAllowed"))
	f.notNegative(int64(budget.Status.CurrentHealthy), at.Child("currentHealthy"))
	f.notNegative(int64(budget.Status.DesiredHealthy), at.Child("desiredHealthy"))
	f.notNegative(int64(budget.Status.ExpectedPods), at.Child("expectedPods"))
	return f.list
}
