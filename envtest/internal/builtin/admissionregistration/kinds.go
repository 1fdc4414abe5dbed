// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func AdmissionKinds() []*kind.Kind {
	admission := func(kind string) schema.GroupVersionKind {
		return admissionregistrationv1.SchemeGroupVersion.WithKind(kind)
	}
	extensions := []string{"api-extensions"}
	common := kind.Rules{Generation: true, NeedVersion: true, AnyFinalizers: true}
	static := kind.WarnHooks{Object: kind.WarnStaticName}
	return []*kind.Kind{
		{
			GVK: admission("MutatingWebhookConfiguration"), Resource: "mutatingwebhookconfigurations", Cluster: true,
			Categories: extensions, Rules: common,
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultMutatingWebhooks), Validate: kind.TypedCheck(validateMutatingWebhooks)},
			Warn:  static,
			Table: kind.Show("Webhooks#,Age", mutatingWebhookCells),
		},
		{
			GVK: admission("ValidatingWebhookConfiguration"), Resource: "validatingwebhookconfigurations", Cluster: true,
			Categories: extensions, Rules: common,
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultValidatingWebhooks), Validate: kind.TypedCheck(validateValidatingWebhooks)},
			Warn:  static,
			Table: kind.Show("Webhooks#,Age", validatingWebhookCells),
		},
		{
			GVK: admission("ValidatingAdmissionPolicy"), Resource: "validatingadmissionpolicies", Cluster: true,
			Categories: extensions, Rules: kind.Rules{Status: true, Generation: true, NeedVersion: true, AnyFinalizers: true, StatusKeeps: []string{"metadata"}},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultValidatingPolicy), Validate: kind.TypedCheck(validateValidatingPolicy), ValidateStatus: kind.TypedCheck(validateValidatingPolicyStatus)},
			Warn:  static,
			Table: kind.Show("Validations#,ParamKind,Age", validatingPolicyCells),
		},
		{
			GVK: admission("ValidatingAdmissionPolicyBinding"), Resource: "validatingadmissionpolicybindings", Cluster: true,
			Categories: extensions, Rules: common,
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultValidatingPolicyBinding), Validate: kind.TypedCheck(validateValidatingPolicyBinding)},
			Warn:  static,
			Table: kind.Show("PolicyName,ParamRef,Age", validatingPolicyBindingCells),
		},
		{
			GVK: admission("MutatingAdmissionPolicy"), Resource: "mutatingadmissionpolicies", Cluster: true,
			Categories: extensions, Rules: common,
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultMutatingPolicy), Validate: kind.TypedCheck(validateMutatingPolicy)},
			Warn:  static,
			Table: kind.Show("Mutations#,ParamKind,Age", mutatingPolicyCells),
		},
		{
			GVK: admission("MutatingAdmissionPolicyBinding"), Resource: "mutatingadmissionpolicybindings", Cluster: true,
			Categories: extensions, Rules: common,
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultMutatingPolicyBinding), Validate: kind.TypedCheck(validateMutatingPolicyBinding)},
			Warn:  static,
			Table: kind.Show("PolicyName,ParamRef,Age", mutatingPolicyBindingCells),
		},
	}
}
