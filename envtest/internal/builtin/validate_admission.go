// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"net/url"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// webhook is what mutating and validating webhooks have in common.
type webhook struct {
	name        string
	client      admissionregistrationv1.WebhookClientConfig
	rules       []admissionregistrationv1.RuleWithOperations
	failure     *admissionregistrationv1.FailurePolicyType
	match       *admissionregistrationv1.MatchPolicyType
	effects     *admissionregistrationv1.SideEffectClass
	timeout     *int32
	versions    []string
	ofNamespace *metav1.LabelSelector
	ofObject    *metav1.LabelSelector
}

func validateMutatingWebhooks(config, _ *admissionregistrationv1.MutatingWebhookConfiguration) field.ErrorList {
	names := sets.New[string]()
	var errs field.ErrorList
	for i, w := range config.Webhooks {
		errs = append(errs, validateWebhook(webhook{
			w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds,
			w.AdmissionReviewVersions, w.NamespaceSelector, w.ObjectSelector,
		}, names, field.NewPath("webhooks").Index(i))...)
	}
	return errs
}

func validateValidatingWebhooks(config, _ *admissionregistrationv1.ValidatingWebhookConfiguration) field.ErrorList {
	names := sets.New[string]()
	var errs field.ErrorList
	for i, w := range config.Webhooks {
		errs = append(errs, validateWebhook(webhook{
			w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds,
			w.AdmissionReviewVersions, w.NamespaceSelector, w.ObjectSelector,
		}, names, field.NewPath("webhooks").Index(i))...)
	}
	return errs
}

// validateWebhook checks one webhook and adds its name to names.
func validateWebhook(w webhook, names sets.Set[string], path *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), w.name)
	if names.Has(w.name) {
		errs = append(errs, field.Duplicate(path.Child("name"), w.name))
	}
	names.Insert(w.name)
	for i, rule := range w.rules {
		errs = append(errs, validateRule(rule, path.Child("rules").Index(i))...)
	}
	if w.failure != nil {
		errs = append(errs, oneOf(*w.failure, path.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	}
	if w.match != nil {
		errs = append(errs, oneOf(*w.match, path.Child("matchPolicy"), admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)...)
	}
	effects := []admissionregistrationv1.SideEffectClass{admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun}
	if w.effects == nil {
		errs = append(errs, field.Required(path.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
	} else {
		errs = append(errs, oneOf(*w.effects, path.Child("sideEffects"), effects...)...)
	}
	if w.timeout != nil && (*w.timeout < 1 || *w.timeout > 30) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *w.timeout, "the timeout value must be between 1 and 30 seconds"))
	}
	switch {
	case len(w.versions) == 0:
		errs = append(errs, field.Required(path.Child("admissionReviewVersions"), "must specify one of v1, v1beta1"))
	case !slices.Contains(w.versions, "v1") && !slices.Contains(w.versions, "v1beta1"):
		errs = append(errs, field.Invalid(path.Child("admissionReviewVersions"), w.versions, "must include at least one of v1, v1beta1"))
	}
	errs = append(errs, labelSelector(w.ofNamespace, path.Child("namespaceSelector"))...)
	errs = append(errs, labelSelector(w.ofObject, path.Child("objectSelector"))...)
	return append(errs, validateWebhookClient(w.client, path.Child("clientConfig"))...)
}

// validateWebhookClient checks where a webhook is: at a URL or behind a Service.
func validateWebhookClient(client admissionregistrationv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	if (client.URL == nil) == (client.Service == nil) {
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	}
	if client.Service != nil {
		errs := required(client.Service.Namespace, path.Child("service", "namespace"))
		return append(errs, required(client.Service.Name, path.Child("service", "name"))...)
	}
	u, err := url.Parse(*client.URL)
	switch {
	case err != nil:
		return field.ErrorList{field.Required(path.Child("url"), "url must be a valid URL: "+err.Error())}
	case u.Scheme != "https":
		return field.ErrorList{field.Invalid(path.Child("url"), u.Scheme, "'https' is the only allowed URL scheme; desired format: https://host[/path]")}
	case u.Host == "":
		return field.ErrorList{field.Invalid(path.Child("url"), u.Host, "host must be specified; desired format: https://host[/path]")}
	}
	return nil
}

func validateRule(rule admissionregistrationv1.RuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, values := range map[string]int{
		"operations": len(rule.Operations), "apiGroups": len(rule.APIGroups),
		"apiVersions": len(rule.APIVersions), "resources": len(rule.Resources),
	} {
		if values == 0 {
			errs = append(errs, field.Required(path.Child(name), ""))
		}
	}
	if rule.Scope != nil {
		errs = append(errs, oneOf(*rule.Scope, path.Child("scope"), admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope)...)
	}
	return errs
}

// validateMatch checks what a policy or binding applies to; rules are needed in a policy.
func validateMatch(match *admissionregistrationv1.MatchResources, needed bool, path *field.Path) field.ErrorList {
	if match == nil {
		if needed {
			return field.ErrorList{field.Required(path, "")}
		}
		return nil
	}
	var errs field.ErrorList
	if needed && len(match.ResourceRules) == 0 {
		errs = append(errs, field.Required(path.Child("resourceRules"), ""))
	}
	for i, rule := range match.ResourceRules {
		errs = append(errs, validateRule(rule.RuleWithOperations, path.Child("resourceRules").Index(i))...)
	}
	errs = append(errs, labelSelector(match.NamespaceSelector, path.Child("namespaceSelector"))...)
	return append(errs, labelSelector(match.ObjectSelector, path.Child("objectSelector"))...)
}

func validateValidatingPolicy(policy, _ *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	errs := validateMatch(policy.Spec.MatchConstraints, true, specPath("matchConstraints"))
	if len(policy.Spec.Validations)+len(policy.Spec.AuditAnnotations) == 0 {
		errs = append(errs, field.Required(specPath("validations"), "validations or auditAnnotations must be non-empty"))
	}
	for i, v := range policy.Spec.Validations {
		errs = append(errs, required(v.Expression, specPath("validations").Index(i).Child("expression"))...)
	}
	return errs
}

func validateValidatingPolicyBinding(binding, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := required(binding.Spec.PolicyName, specPath("policyName"))
	if len(binding.Spec.ValidationActions) == 0 {
		errs = append(errs, field.Required(specPath("validationActions"), "at least one validation action is required"))
	}
	return append(errs, validateMatch(binding.Spec.MatchResources, false, specPath("matchResources"))...)
}

func validateMutatingPolicy(policy, _ *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	errs := validateMatch(policy.Spec.MatchConstraints, true, specPath("matchConstraints"))
	if len(policy.Spec.Mutations) == 0 {
		errs = append(errs, field.Required(specPath("mutations"), "mutations must contain at least one item"))
	}
	if policy.Spec.ReinvocationPolicy == "" {
		errs = append(errs, field.Required(specPath("reinvocationPolicy"), ""))
	}
	return errs
}

func validateMutatingPolicyBinding(binding, _ *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := required(binding.Spec.PolicyName, specPath("policyName"))
	return append(errs, validateMatch(binding.Spec.MatchResources, false, specPath("matchResources"))...)
}
