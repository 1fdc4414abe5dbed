// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func PolicyKinds() []*kind.Kind {
	return []*kind.Kind{{
		GVK: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), Resource: "poddisruptionbudgets", Short: []string{"pdb"},
		Rules: kind.Rules{Status: true, Generation: true, NeedVersion: true, AnyFinalizers: true, AnyMeta: true},
		Hooks: kind.Hooks{Validate: kind.TypedCheck(validatePodDisruptionBudget), ValidateStatus: kind.TypedCheck(validatePodDisruptionBudgetStatus)},
		Table: kind.Show("Min Available,Max Unavailable,Allowed Disruptions#,Age", podDisruptionBudgetCells),
	}}
}

func podDisruptionBudgetCells(budget *policyv1.PodDisruptionBudget) []any {
	show := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []any{show(budget.Spec.MinAvailable), show(budget.Spec.MaxUnavailable), int64(budget.Status.DisruptionsAllowed), kind.AgeOf(budget)}
}

func validatePodDisruptionBudget(budget, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	spec := &budget.Spec
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(kind.SpecPath(), *spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, kind.CountOrPercent(spec.MinAvailable, kind.SpecPath("minAvailable"))...)
	errs = append(errs, kind.CountOrPercent(spec.MaxUnavailable, kind.SpecPath("maxUnavailable"))...)
	f := kind.Findings{List: errs}
	f.NotAll(spec.MinAvailable, kind.SpecPath("minAvailable"))
	f.NotAll(spec.MaxUnavailable, kind.SpecPath("maxUnavailable"))
	f.Add(kind.LabelSelector(spec.Selector, kind.SpecPath("selector")))
	kind.Chosen(&f, spec.UnhealthyPodEvictionPolicy, kind.SpecPath("unhealthyPodEvictionPolicy"), policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	return f.List
}

func validatePodDisruptionBudgetStatus(budget, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	at := field.NewPath("status")
	f := kind.Findings{List: metavalidation.ValidateConditions(budget.Status.Conditions, at.Child("conditions"))}
	f.NotNegative(int64(budget.Status.DisruptionsAllowed), at.Child("disruptionsAllowed"))
	f.NotNegative(int64(budget.Status.CurrentHealthy), at.Child("currentHealthy"))
	f.NotNegative(int64(budget.Status.DesiredHealthy), at.Child("desiredHealthy"))
	f.NotNegative(int64(budget.Status.ExpectedPods), at.Child("expectedPods"))
	return f.List
}
