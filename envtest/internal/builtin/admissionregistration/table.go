// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func mutatingWebhookCells(config *admissionregistrationv1.MutatingWebhookConfiguration) []any {
	return []any{int64(len(config.Webhooks)), kind.AgeOf(config)}
}

func validatingWebhookCells(config *admissionregistrationv1.ValidatingWebhookConfiguration) []any {
	return []any{int64(len(config.Webhooks)), kind.AgeOf(config)}
}

func validatingPolicyCells(policy *admissionregistrationv1.ValidatingAdmissionPolicy) []any {
	return []any{int64(len(policy.Spec.Validations)), paramKind(policy.Spec.ParamKind), kind.AgeOf(policy)}
}

func mutatingPolicyCells(policy *admissionregistrationv1.MutatingAdmissionPolicy) []any {
	return []any{int64(len(policy.Spec.Mutations)), paramKind(policy.Spec.ParamKind), kind.AgeOf(policy)}
}

func paramKind(kind *admissionregistrationv1.ParamKind) string {
	if kind == nil {
		return "<unset>"
	}
	return kind.APIVersion + "/" + kind.Kind
}

func validatingPolicyBindingCells(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) []any {
	return []any{binding.Spec.PolicyName, paramRef(binding.Spec.ParamRef), kind.AgeOf(binding)}
}

func mutatingPolicyBindingCells(binding *admissionregistrationv1.MutatingAdmissionPolicyBinding) []any {
	return []any{binding.Spec.PolicyName, paramRef(binding.Spec.ParamRef), kind.AgeOf(binding)}
}

func paramRef(ref *admissionregistrationv1.ParamRef) string {
	switch {
	case ref == nil:
		return "<unset>"
	case ref.Namespace != "":
		return ref.Namespace + "/" + ref.Name
	case ref.Name != "":
		return "*/" + ref.Name
	default:
		return "*/*"
	}
}
