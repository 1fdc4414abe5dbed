// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// The rules are those of kube-apiserver's pkg/apis/flowcontrol/validation.

const (
	maxPrecedence = 10000
	maxQueues     = 10 * 1000 * 1000
)

var flowVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func validateFlowSchema(schema, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	spec, path := &schema.Spec, kind.SpecPath()
	precedence := path.Child("matchingPrecedence")
	var errs field.ErrorList
	if spec.MatchingPrecedence <= 0 {
		errs = append(errs, field.Invalid(precedence, spec.MatchingPrecedence, "must be a positive value"))
	}
	if spec.MatchingPrecedence > maxPrecedence {
		errs = append(errs, field.Invalid(precedence, spec.MatchingPrecedence, fmt.Sprintf("must not be greater than %d", maxPrecedence)))
	}
	if spec.MatchingPrecedence == 1 && schema.Name != flowcontrolv1.FlowSchemaNameExempt {
		errs = append(errs, field.Invalid(precedence, spec.MatchingPrecedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if method := spec.DistinguisherMethod; method != nil {
		errs = append(errs, kind.OneOf(method.Type, path.Child("distinguisherMethod", "type"),
			flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType)...)
	}
	level, at := spec.PriorityLevelConfiguration.Name, path.Child("priorityLevelConfiguration", "name")
	if level == "" {
		errs = append(errs, field.Required(at, "must reference a priority level"))
	} else {
		errs = append(errs, kind.InvalidIf(validation.IsDNS1123Subdomain(level), level, at)...)
	}
	for i := range spec.Rules {
		errs = append(errs, flowRule(&spec.Rules[i], path.Child("rules").Index(i))...)
	}
	for _, fixed := range bootstrap.MandatoryFlowSchemas {
		if fixed.Name == schema.Name && !apiequality.Semantic.DeepEqual(fixed.Spec, *spec) {
			errs = append(errs, field.Invalid(path, *spec, fmt.Sprintf("spec of '%s' must equal the fixed value", schema.Name)))
		}
	}
	return errs
}

func flowRule(rule *flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range rule.Subjects {
		errs = append(errs, flowSubject(&rule.Subjects[i], path.Child("subjects").Index(i))...)
	}
	if len(rule.ResourceRules)+len(rule.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range rule.ResourceRules {
		errs = append(errs, flowResourceRule(&rule.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range rule.NonResourceRules {
		r, at := &rule.NonResourceRules[i], path.Child("nonResourceRules").Index(i)
		errs = append(errs, verbsOf(r.Verbs, at.Child("verbs"))...)
		errs = append(errs, flowPaths(r.NonResourceURLs, at.Child("nonResourceURLs"))...)
	}
	return errs
}

// flowSubject checks that a subject has the part that its kind names, and no other.
func flowSubject(subject *flowcontrolv1.Subject, path *field.Path) field.ErrorList {
	errs := kind.OneOf(subject.Kind, path.Child("kind"),
		flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser)
	if len(errs) > 0 {
		return errs
	}
	account, user, group := subject.ServiceAccount, subject.User, subject.Group
	for _, part := range []struct {
		kind  flowcontrolv1.SubjectKind
		field string
		set   bool
		check func(*field.Path) field.ErrorList
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", account != nil, func(at *field.Path) field.ErrorList { return flowAccount(account, at) }},
		{flowcontrolv1.SubjectKindUser, "user", user != nil, func(at *field.Path) field.ErrorList { return kind.Required(user.Name, at.Child("name")) }},
		{flowcontrolv1.SubjectKindGroup, "group", group != nil, func(at *field.Path) field.ErrorList { return kind.Required(group.Name, at.Child("name")) }},
	} {
		at := path.Child(part.field)
		switch {
		case part.kind != subject.Kind && part.set:
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("%s is forbidden when subject kind is not '%s'", part.field, part.kind)))
		case part.kind == subject.Kind && !part.set:
			errs = append(errs, field.Required(at, fmt.Sprintf("%s is required when subject kind is '%s'", part.field, part.kind)))
		case part.kind == subject.Kind:
			errs = append(errs, part.check(at)...)
		}
	}
	return errs
}

func flowAccount(account *flowcontrolv1.ServiceAccountSubject, path *field.Path) field.ErrorList {
	errs := kind.Required(account.Name, path.Child("name"))
	if account.Name != "" && account.Name != flowcontrolv1.NameAll {
		errs = append(errs, kind.InvalidIf(apivalidation.ValidateServiceAccountName(account.Name, false), account.Name, path.Child("name"))...)
	}
	if account.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, kind.InvalidIf(apivalidation.ValidateNamespaceName(account.Namespace, false), account.Namespace, path.Child("namespace"))...)
}

func flowResourceRule(rule *flowcontrolv1.ResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := verbsOf(rule.Verbs, path.Child("verbs"))
	errs = append(errs, starAlone(rule.APIGroups, "resource rules must supply at least one api group", "api groups", path.Child("apiGroups"))...)
	errs = append(errs, starAlone(rule.Resources, "resource rules must supply at least one resource", "resources", path.Child("resources"))...)
	namespaces := path.Child("namespaces")
	if len(rule.Namespaces) == 0 && !rule.ClusterScope {
		return append(errs, field.Required(namespaces, "resource rules that are not cluster scoped must supply at least one namespace"))
	}
	for i, namespace := range rule.Namespaces {
		switch messages := validation.IsDNS1123Label(namespace); {
		case namespace == flowcontrolv1.NamespaceEvery && len(rule.Namespaces) > 1:
			return append(errs, field.Invalid(namespaces, rule.Namespaces, "if '*' is present, must not specify other namespaces"))
		case namespace == flowcontrolv1.NamespaceEvery:
		default:
			for _, message := range messages {
				errs = append(errs, field.Invalid(namespaces.Index(i), namespace, "each member of this list must be '*' or a DNS-1123 label; "+message))
			}
		}
	}
	return errs
}

func verbsOf(verbs []string, path *field.Path) field.ErrorList {
	if errs := starAlone(verbs, "verbs must contain at least one value", "verbs", path); len(errs) > 0 || slices.Contains(verbs, "*") {
		return errs
	}
	for _, verb := range verbs {
		if !slices.Contains(flowVerbs, verb) {
			return field.ErrorList{field.NotSupported(path, verbs, flowVerbs)}
		}
	}
	return nil
}

// starAlone wants values, and no other beside the star that stands for all.
func starAlone(values []string, none, others string, path *field.Path) field.ErrorList {
	switch {
	case len(values) == 0:
		return field.ErrorList{field.Required(path, none)}
	case len(values) > 1 && slices.Contains(values, "*"):
		return field.ErrorList{field.Invalid(path, values, "if '*' is present, must not specify other "+others)}
	}
	return nil
}

func flowPaths(paths []string, path *field.Path) field.ErrorList {
	errs := starAlone(paths, "nonResourceURLs must contain at least one value", "non-resource URLs", path)
	if len(errs) > 0 || slices.Contains(paths, "*") {
		return errs
	}
	for i, p := range paths {
		at := path.Index(i)
		switch stars := strings.Count(p, "*"); {
		case p == "":
			errs = append(errs, field.Invalid(at, p, "must not be empty"))
		case !strings.HasPrefix(p, "/"):
			errs = append(errs, field.Invalid(at, p, "must start with slash"))
		case strings.Contains(p, " "):
			errs = append(errs, field.Invalid(at, p, "must not contain white-space"))
		case strings.Contains(p, "//"):
			errs = append(errs, field.Invalid(at, p, "must not contain double slash"))
		case stars > 1, stars == 1 && !strings.HasSuffix(p, "/*"):
			errs = append(errs, field.Invalid(at, p, "wildcard can only do suffix matching"))
		}
	}
	return errs
}

func validateFlowSchemaStatus(schema, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	var types []string
	for _, condition := range schema.Status.Conditions {
		types = append(types, string(condition.Type))
	}
	return conditionTypes(types)
}

func validatePriorityLevelStatus(level, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var types []string
	for _, condition := range level.Status.Conditions {
		types = append(types, string(condition.Type))
	}
	return conditionTypes(types)
}

// conditionTypes wants each condition to have a type of its own.
func conditionTypes(types []string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range types {
		path := field.NewPath("status", "conditions").Index(i).Child("type")
		if seen[name] {
			errs = append(errs, field.Duplicate(path, name))
		}
		seen[name] = true
		errs = append(errs, kind.Required(name, path)...)
	}
	return errs
}

func validatePriorityLevel(level, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	spec, path := &level.Spec, kind.SpecPath()
	var errs field.ErrorList
	const ofOldVersion = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
	if _, ok := level.Annotations[ofOldVersion]; ok {
		errs = append(errs, field.Forbidden(kind.AnnotationsPath(), "annotation '"+ofOldVersion+"' is forbidden"))
	}
	exempt := spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
	if (level.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != exempt {
		errs = append(errs, field.Invalid(path.Child("type"), spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch {
	case spec.Type == "":
		errs = append(errs, field.Required(path.Child("type"), ""))
	case exempt:
		if spec.Limited != nil {
			errs = append(errs, field.Forbidden(path.Child("limited"), "must be nil if the type is not Limited"))
		}
		if spec.Exempt != nil {
			errs = append(errs, notNegativeInteger(spec.Exempt.NominalConcurrencyShares, path.Child("exempt", "nominalConcurrencyShares"))...)
			errs = append(errs, percentOf(spec.Exempt.LendablePercent, path.Child("exempt", "lendablePercent"))...)
		}
	case spec.Type == flowcontrolv1.PriorityLevelEnablementLimited:
		if spec.Exempt != nil {
			errs = append(errs, field.Forbidden(path.Child("exempt"), "must be nil if the type is Limited"))
		}
		errs = append(errs, limitedLevel(spec.Limited, path.Child("limited"))...)
	default:
		errs = append(errs, kind.OneOf(spec.Type, path.Child("type"),
			flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited)...)
	}
	return append(errs, fixedLevel(level, path)...)
}

// fixedLevel refuses to change the levels that the server cannot do without.
func fixedLevel(level *flowcontrolv1.PriorityLevelConfiguration, path *field.Path) field.ErrorList {
	for _, fixed := range bootstrap.MandatoryPriorityLevelConfigurations {
		if fixed.Name != level.Name {
			continue
		}
		have, except := level.Spec.DeepCopy(), ""
		if level.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			have.Exempt, except = fixed.Spec.Exempt, " except the 'spec.exempt' field"
		}
		if !apiequality.Semantic.DeepEqual(*have, fixed.Spec) {
			return field.ErrorList{field.Invalid(path, level.Spec, fmt.Sprintf("spec of '%s'%s must equal the fixed value", level.Name, except))}
		}
	}
	return nil
}

func limitedLevel(limited *flowcontrolv1.LimitedPriorityLevelConfiguration, path *field.Path) field.ErrorList {
	if limited == nil {
		return field.ErrorList{field.Required(path, "must not be empty when type is Limited")}
	}
	errs := notNegativeInteger(limited.NominalConcurrencyShares, path.Child("nominalConcurrencyShares"))
	response, at := &limited.LimitResponse, path.Child("limitResponse")
	switch response.Type {
	case "":
		errs = append(errs, field.Required(at.Child("type"), ""))
	case flowcontrolv1.LimitResponseTypeReject:
		if response.Queuing != nil {
			errs = append(errs, field.Forbidden(at.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited"))
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if response.Queuing == nil {
			errs = append(errs, field.Required(at.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited"))
		} else {
			errs = append(errs, queuing(response.Queuing, at.Child("queuing"))...)
		}
	default:
		errs = append(errs, kind.OneOf(response.Type, at.Child("type"), flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)...)
	}
	errs = append(errs, percentOf(limited.LendablePercent, path.Child("lendablePercent"))...)
	if p := limited.BorrowingLimitPercent; p != nil && *p < 0 {
		errs = append(errs, field.Invalid(path.Child("borrowingLimitPercent"), *p, "if specified, must be a non-negative integer"))
	}
	return errs
}

func queuing(q *flowcontrolv1.QueuingConfiguration, path *field.Path) field.ErrorList {
	const positive = "must be positive"
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(path.Child("queueLengthLimit"), q.QueueLengthLimit, positive))
	}
	switch {
	case q.Queues <= 0:
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, positive))
	case q.Queues > maxQueues:
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	hand := path.Child("handSize")
	switch {
	case q.HandSize <= 0:
		errs = append(errs, field.Invalid(hand, q.HandSize, positive))
	case q.HandSize > q.Queues:
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	default:
		if bits := shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)); bits > shufflesharding.MaxHashBits {
			errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf(
				"required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, shufflesharding.MaxHashBits)))
		}
	}
	return errs
}

func notNegativeInteger(value *int32, path *field.Path) field.ErrorList {
	if value != nil && *value < 0 {
		return field.ErrorList{field.Invalid(path, *value, "must be a non-negative integer")}
	}
	return nil
}

func percentOf(value *int32, path *field.Path) field.ErrorList {
	if value != nil && (*value < 0 || *value > 100) {
		return field.ErrorList{field.Invalid(path, *value, "must be between 0 and 100, inclusive")}
	}
	return nil
}
