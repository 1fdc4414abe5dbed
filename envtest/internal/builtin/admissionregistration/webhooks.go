// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiserverwebhook "k8s.io/apiserver/pkg/util/webhook"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func validateMutatingWebhooks(config, _ *admissionregistrationv1.MutatingWebhookConfiguration) field.ErrorList {
	names := sets.New[string]()
	var errs field.ErrorList
	for i := range config.Webhooks {
		errs = append(errs, validateWebhook(&config.Webhooks[i], names, field.NewPath("webhooks").Index(i))...)
	}
	return errs
}

func validateValidatingWebhooks(config, _ *admissionregistrationv1.ValidatingWebhookConfiguration) field.ErrorList {
	names := sets.New[string]()
	var errs field.ErrorList
	for i, w := range config.Webhooks {
		errs = append(errs, validateWebhook(&admissionregistrationv1.MutatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		}, names, field.NewPath("webhooks").Index(i))...)
	}
	return errs
}

// validateWebhook checks one webhook and adds its name to names. A validating webhook is a mutating one without a reinvocation policy.
func validateWebhook(w *admissionregistrationv1.MutatingWebhook, names sets.Set[string], path *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), w.Name)
	if names.Has(w.Name) {
		errs = append(errs, field.Duplicate(path.Child("name"), w.Name))
	}
	names.Insert(w.Name)
	for i, rule := range w.Rules {
		errs = append(errs, validateRule(rule, path.Child("rules").Index(i))...)
	}
	if w.FailurePolicy != nil {
		errs = append(errs, kind.OneOf(*w.FailurePolicy, path.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	}
	if w.MatchPolicy != nil {
		errs = append(errs, kind.OneOf(*w.MatchPolicy, path.Child("matchPolicy"), admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)...)
	}
	effects := []admissionregistrationv1.SideEffectClass{admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun}
	if w.SideEffects == nil {
		errs = append(errs, field.Required(path.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
	} else {
		errs = append(errs, kind.OneOf(*w.SideEffects, path.Child("sideEffects"), effects...)...)
	}
	if w.TimeoutSeconds != nil && (*w.TimeoutSeconds < 1 || *w.TimeoutSeconds > 30) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *w.TimeoutSeconds, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, reviewVersions(w.AdmissionReviewVersions, path.Child("admissionReviewVersions"))...)
	errs = append(errs, kind.LabelSelector(w.NamespaceSelector, path.Child("namespaceSelector"))...)
	errs = append(errs, kind.LabelSelector(w.ObjectSelector, path.Child("objectSelector"))...)
	errs = append(errs, matchConditions(w.MatchConditions, false, path.Child("matchConditions"))...)
	errs = append(errs, validateWebhookClient(w.ClientConfig, path.Child("clientConfig"))...)
	if w.ReinvocationPolicy != nil {
		errs = append(errs, kind.OneOf(*w.ReinvocationPolicy, path.Child("reinvocationPolicy"),
			admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)...)
	}
	return errs
}

// reviewVersions checks the versions of the review that a webhook understands: one of them must be known here.
func reviewVersions(versions []string, at *field.Path) field.ErrorList {
	var f kind.Findings
	if f.Need(len(versions) > 0, at); len(versions) == 0 {
		return f.List
	}
	seen := sets.New[string]()
	for i, version := range versions {
		if seen.Has(version) {
			f.Invalid(true, at.Index(i), version, "duplicate version")
			continue
		}
		seen.Insert(version)
		f.Messages(validation.IsDNS1035Label(version), version, at.Index(i))
	}
	f.Invalid(!seen.HasAny("v1", "v1beta1"), at, versions, "must include at least one of v1, v1beta1")
	return f.List
}

// validateWebhookClient checks where a webhook is: at a URL or behind a Service.
func validateWebhookClient(client admissionregistrationv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (client.URL == nil) == (client.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case client.URL != nil:
		return apiserverwebhook.ValidateWebhookURL(path.Child("url"), *client.URL, true)
	}
	service := client.Service
	port := int32(443)
	if service.Port != nil {
		port = *service.Port
	}
	return apiserverwebhook.ValidateWebhookService(path.Child("service"), service.Name, service.Namespace, service.Path, port)
}

// checkWildcard reports whether a list has more than "*" beside it.
func checkWildcard(f *kind.Findings, list []string, at *field.Path) {
	f.Invalid(len(list) > 1 && slices.Contains(list, "*"), at, list, "if '*' is present, must not specify others")
}

func validateRule(rule admissionregistrationv1.RuleWithOperations, at *field.Path) field.ErrorList {
	var f kind.Findings
	f.Need(len(rule.Operations) > 0, at.Child("operations"))
	f.Invalid(len(rule.Operations) > 1 && slices.Contains(rule.Operations, admissionregistrationv1.OperationAll), at.Child("operations"), rule.Operations,
		"if '*' is present, must not specify other operations")
	for i, operation := range rule.Operations {
		kind.Known(&f, operation, at.Child("operations").Index(i), admissionregistrationv1.OperationAll, admissionregistrationv1.Connect,
			admissionregistrationv1.Create, admissionregistrationv1.Delete, admissionregistrationv1.Update)
	}
	f.Need(len(rule.APIGroups) > 0, at.Child("apiGroups"))
	checkWildcard(&f, rule.APIGroups, at.Child("apiGroups"))
	f.Need(len(rule.APIVersions) > 0, at.Child("apiVersions"))
	checkWildcard(&f, rule.APIVersions, at.Child("apiVersions"))
	for i, version := range rule.APIVersions {
		f.Need(version != "", at.Child("apiVersions").Index(i))
	}
	checkRuleResources(&f, rule.Resources, at.Child("resources"))
	kind.Chosen(&f, rule.Scope, at.Child("scope"), admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope)
	return f.List
}

// checkRuleResources checks resources and subresources: none may be in another one. As a kube-apiserver does, it takes "*" behind others.
func checkRuleResources(f *kind.Findings, resources []string, at *field.Path) {
	f.Need(len(resources) > 0, at)
	seen, withAll, ofAll := sets.New[string](), sets.New[string](), sets.New[string]()
	last := "" // that is no subresource
	for i, name := range resources {
		here := at.Index(i)
		if name == "" {
			f.Need(false, here)
			continue
		}
		resource, sub, isSub := strings.Cut(name, "/")
		if !isSub {
			last = name
		}
		f.Invalid(withAll.Has(resource) && isSub, here, name, "if '"+resource+"/*' is present, must not specify "+name)
		f.Invalid(isSub && ofAll.Has(sub), here, name, "if '*/"+sub+"' is present, must not specify "+name)
		if isSub && sub == "*" {
			withAll.Insert(resource)
		}
		if isSub && resource == "*" {
			ofAll.Insert(sub)
		}
		seen.Insert(name)
	}
	f.Invalid(len(resources) > 1 && seen.Has("*/*"), at, resources, "if '*/*' is present, must not specify other resources")
	f.Invalid(seen.Has("*") && last != "*", at, resources, "if '*' is present, must not specify other resources without subresources")
}
