// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func defaultMutatingWebhooks(config *admissionregistrationv1.MutatingWebhookConfiguration) {
	kind.Each(config.Webhooks, func(w *admissionregistrationv1.MutatingWebhook) {
		kind.Missing(&w.FailurePolicy, admissionregistrationv1.Fail)
		kind.Missing(&w.MatchPolicy, admissionregistrationv1.Equivalent)
		kind.Missing(&w.NamespaceSelector, metav1.LabelSelector{})
		kind.Missing(&w.ObjectSelector, metav1.LabelSelector{})
		kind.Missing(&w.TimeoutSeconds, 10)
		kind.Missing(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
		defaultWebhookService(w.ClientConfig.Service)
		kind.Each(w.Rules, defaultRule)
	})
}

func defaultValidatingWebhooks(config *admissionregistrationv1.ValidatingWebhookConfiguration) {
	kind.Each(config.Webhooks, func(w *admissionregistrationv1.ValidatingWebhook) {
		kind.Missing(&w.FailurePolicy, admissionregistrationv1.Fail)
		kind.Missing(&w.MatchPolicy, admissionregistrationv1.Equivalent)
		kind.Missing(&w.NamespaceSelector, metav1.LabelSelector{})
		kind.Missing(&w.ObjectSelector, metav1.LabelSelector{})
		kind.Missing(&w.TimeoutSeconds, 10)
		defaultWebhookService(w.ClientConfig.Service)
		kind.Each(w.Rules, defaultRule)
	})
}

func defaultWebhookService(service *admissionregistrationv1.ServiceReference) {
	if service != nil {
		kind.Missing(&service.Port, 443)
	}
}

func defaultRule(rule *admissionregistrationv1.RuleWithOperations) {
	kind.Missing(&rule.Scope, admissionregistrationv1.AllScopes)
}

func defaultMatchResources(match *admissionregistrationv1.MatchResources) {
	if match == nil {
		return
	}
	kind.Missing(&match.MatchPolicy, admissionregistrationv1.Equivalent)
	kind.Missing(&match.NamespaceSelector, metav1.LabelSelector{})
	kind.Missing(&match.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{match.ResourceRules, match.ExcludeResourceRules} {
		kind.Each(rules, func(rule *admissionregistrationv1.NamedRuleWithOperations) { defaultRule(&rule.RuleWithOperations) })
	}
}

func defaultValidatingPolicy(policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
	kind.Missing(&policy.Spec.FailurePolicy, admissionregistrationv1.Fail)
	defaultMatchResources(policy.Spec.MatchConstraints)
}

func defaultValidatingPolicyBinding(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	defaultMatchResources(binding.Spec.MatchResources)
}

func defaultMutatingPolicy(policy *admissionregistrationv1.MutatingAdmissionPolicy) {
	kind.Missing(&policy.Spec.FailurePolicy, admissionregistrationv1.Fail)
	defaultMatchResources(policy.Spec.MatchConstraints)
}

func defaultMutatingPolicyBinding(binding *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
	defaultMatchResources(binding.Spec.MatchResources)
}
