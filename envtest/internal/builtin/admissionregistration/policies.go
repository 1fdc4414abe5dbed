// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// The rules are those of kube-apiserver's pkg/apis/admissionregistration/validation. The compiler of expressions is that of
// k8s.io/apiserver, with which they run.

// expressions compiles what needs no variables of a policy. It keeps an environment for each set of declarations.
var expressions = sync.OnceValue(func() plugincel.Compiler {
	return plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// composition returns a compiler that knows the variables of one policy, as far as they were compiled with it.
func composition() plugincel.Compiler {
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return expressions() // then variables are unknown, and an expression that uses one is refused
	}
	return compiler
}

// checkExpression reports an expression that does not compile.
func checkExpression(f *kind.Findings, compiler plugincel.Compiler, e plugincel.ExpressionAccessor, knows plugincel.OptionalVariableDeclarations, at *field.Path) {
	checkCompiled(f, compiler.CompileCELExpression(e, knows, environment.NewExpressions).Error, e.GetExpression(), at)
}

func checkCompiled(f *kind.Findings, err *cel.Error, expression string, at *field.Path) {
	switch {
	case err == nil:
	case err.Type == cel.ErrorTypeRequired:
		f.List = append(f.List, field.Required(at, err.Detail))
	case err.Type == cel.ErrorTypeInvalid:
		f.Invalid(true, at, expression, err.Detail)
	default:
		f.List = append(f.List, field.InternalError(at, errors.New(err.Detail)))
	}
}

// matchConditions checks the conditions of webhooks and policies. Expressions of policies know their
// parameters.
func matchConditions(conditions []admissionregistrationv1.MatchCondition, params bool, at *field.Path) field.ErrorList {
	var f kind.Findings
	if len(conditions) > 64 {
		f.List = append(f.List, field.TooMany(at, len(conditions), 64))
	}
	names := sets.New[string]()
	for i, c := range conditions {
		here := at.Index(i)
		if text := strings.TrimSpace(c.Expression); f.Text(text, here.Child("expression")) {
			checkExpression(&f, expressions(), &matchconditions.MatchCondition{Name: c.Name, Expression: text},
				plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, here.Child("expression"))
		}
		if f.Text(c.Name, here.Child("name")) {
			f.Messages(validation.IsQualifiedName(c.Name), c.Name, here.Child("name"))
			f.Unique(c.Name, names, here.Child("name"))
		}
	}
	return f.List
}

// checkMatchResources checks what a policy or binding applies to.
func checkMatchResources(f *kind.Findings, match *admissionregistrationv1.MatchResources, mutating bool, at *field.Path) {
	if match == nil {
		return
	}
	kind.Chosen(f, match.MatchPolicy, at.Child("matchPolicy"), admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)
	f.Add(kind.LabelSelector(match.NamespaceSelector, at.Child("namespaceSelector")))
	f.Add(kind.LabelSelector(match.ObjectSelector, at.Child("objectSelector")))
	for _, rules := range []struct {
		name string
		list []admissionregistrationv1.NamedRuleWithOperations
	}{{"resourceRules", match.ResourceRules}, {"excludeResourceRules", match.ExcludeResourceRules}} {
		for i, rule := range rules.list {
			here := at.Child(rules.name).Index(i)
			names := sets.New[string]()
			for j, name := range rule.ResourceNames {
				f.Messages(kind.PathSegment(name, false), name, here.Child("resourceNames").Index(j))
				f.Unique(name, names, here.Child("resourceNames").Index(j))
			}
			f.Add(validateRule(rule.RuleWithOperations, here))
		}
	}
	if !mutating {
		return
	}
	for _, rule := range match.ResourceRules {
		for _, operation := range rule.Operations {
			kind.Known(f, operation, at.Child("resourceRules", "operations"), admissionregistrationv1.OperationAll, admissionregistrationv1.Connect,
				admissionregistrationv1.Create, admissionregistrationv1.Update)
		}
	}
}

// checkPolicyStart is what validating and mutating policies have in common.
func checkPolicyStart(f *kind.Findings, failure *admissionregistrationv1.FailurePolicyType, params *admissionregistrationv1.ParamKind,
	match *admissionregistrationv1.MatchResources, conditions []admissionregistrationv1.MatchCondition, mutating bool) {
	at := kind.SpecPath()
	if f.Need(failure != nil, at.Child("failurePolicy")); failure != nil {
		kind.Known(f, *failure, at.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
	}
	if params != nil {
		checkParamKind(f, params, at.Child("paramKind"))
	}
	if f.Need(match != nil, at.Child("matchConstraints")); match != nil {
		checkMatchResources(f, match, mutating, at.Child("matchConstraints"))
		f.Need(len(match.ResourceRules) > 0, at.Child("matchConstraints", "resourceRules"))
	}
	f.Add(matchConditions(conditions, params != nil, at.Child("matchConditions")))
}

func checkParamKind(f *kind.Findings, params *admissionregistrationv1.ParamKind, at *field.Path) {
	version := at.Child("apiVersion")
	if f.Text(params.APIVersion, version) {
		gv, err := schema.ParseGroupVersion(params.APIVersion)
		if f.Invalid(err != nil, version, params.APIVersion, "unexpected GroupVersion string: "+params.APIVersion); err == nil {
			if gv.Group != "" {
				f.Messages(validation.IsDNS1123Subdomain(gv.Group), gv.Group, version)
			}
			f.Messages(validation.IsDNS1035Label(gv.Version), gv.Version, version)
		}
	}
	if f.Text(params.Kind, at.Child("kind")) {
		f.Messages(validation.IsDNS1035Label(strings.ToLower(params.Kind)), params.Kind, at.Child("kind"))
	}
}

var (
	celName     = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)
	celReserved = []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
		"let", "loop", "package", "namespace", "return", "var", "void", "while"}
)

// checkVariables compiles the variables of a policy. Each knows the ones before it.
func checkVariables(f *kind.Findings, compiler plugincel.Compiler, list []admissionregistrationv1.Variable, params bool) {
	for i, v := range list {
		at := kind.SpecPath("variables").Index(i)
		if f.Text(strings.TrimSpace(v.Name), at.Child("name")) {
			f.Invalid(!celName.MatchString(v.Name) || slices.Contains(celReserved, v.Name), at.Child("name"), v.Name, "must be a valid CEL identifier")
		}
		composed, ok := compiler.(*plugincel.CompositedCompiler)
		if f.Text(strings.TrimSpace(v.Expression), at.Child("expression")) && ok {
			result := composed.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression},
				plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, environment.NewExpressions)
			checkCompiled(f, result.Error, v.Expression, at.Child("expression"))
		}
	}
}

func validateValidatingPolicy(policy, _ *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	var f kind.Findings
	spec, at, params := &policy.Spec, kind.SpecPath(), policy.Spec.ParamKind != nil
	checkPolicyStart(&f, spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, spec.MatchConditions, false)
	compiler := expressions()
	if len(spec.Variables) > 0 {
		compiler = composition()
	}
	checkVariables(&f, compiler, spec.Variables, params)
	some := len(spec.Validations)+len(spec.AuditAnnotations) > 0
	f.Need(some, at.Child("validations"))
	f.Need(some, at.Child("auditAnnotations"))
	for i := range spec.Validations {
		checkValidation(&f, compiler, &spec.Validations[i], params, at.Child("validations").Index(i))
	}
	f.Invalid(len(spec.AuditAnnotations) > 20, at.Child("auditAnnotations"), spec.AuditAnnotations, "must not have more than 20 auditAnnotations")
	keys := sets.New[string]()
	for i, a := range spec.AuditAnnotations {
		here := at.Child("auditAnnotations").Index(i)
		f.Messages(validation.IsQualifiedName(policy.Name+"/"+a.Key), a.Key, here.Child("key"))
		f.Unique(a.Key, keys, here.Child("key"))
		text := strings.TrimSpace(a.ValueExpression)
		if f.Need(text != "" && len(text) <= 5<<10, here.Child("valueExpression")); text != "" && len(text) <= 5<<10 {
			checkExpression(&f, compiler, &validating.AuditAnnotationCondition{ValueExpression: text},
				plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, here.Child("valueExpression"))
		}
	}
	return f.List
}

func checkValidation(f *kind.Findings, compiler plugincel.Compiler, v *admissionregistrationv1.Validation, params bool, at *field.Path) {
	if f.Text(strings.TrimSpace(v.Expression), at.Child("expression")) {
		checkExpression(f, compiler, &validating.ValidationCondition{Expression: v.Expression},
			plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, at.Child("expression"))
	}
	message, text := strings.TrimSpace(v.Message), strings.TrimSpace(v.MessageExpression)
	f.Invalid(v.MessageExpression != "" && text == "", at.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified")
	if text != "" {
		checkExpression(f, compiler, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression},
			plugincel.OptionalVariableDeclarations{HasParams: params}, at.Child("messageExpression"))
	}
	f.Invalid(v.Message != "" && message == "", at.Child("message"), v.Message, "must be non-empty if specified")
	f.Invalid(strings.ContainsAny(message, "\n\r"), at.Child("message"), v.Message, "must not contain line breaks")
	kind.Chosen(f, v.Reason, at.Child("reason"), metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)
}

func validateMutatingPolicy(policy, _ *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	var f kind.Findings
	spec, at, params := &policy.Spec, kind.SpecPath(), policy.Spec.ParamKind != nil
	checkPolicyStart(&f, spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, spec.MatchConditions, true)
	compiler := composition()
	checkVariables(&f, compiler, spec.Variables, params)
	f.Need(len(spec.Mutations) > 0, at.Child("mutations"))
	for i := range spec.Mutations {
		checkMutation(&f, compiler, &spec.Mutations[i], params, at.Child("mutations").Index(i))
	}
	kind.Choice(&f, spec.ReinvocationPolicy, at.Child("reinvocationPolicy"),
		admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
	return f.List
}

func checkMutation(f *kind.Findings, compiler plugincel.Compiler, m *admissionregistrationv1.Mutation, params bool, at *field.Path) {
	knows := plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true, HasPatchTypes: true}
	apply, json := at.Child("applyConfiguration"), at.Child("jsonPatch")
	switch m.PatchType {
	case "":
		f.Need(false, at.Child("patchType"))
	case admissionregistrationv1.PatchTypeJSONPatch:
		f.Need(m.JSONPatch != nil, json)
		if m.JSONPatch != nil && f.Text(strings.TrimSpace(m.JSONPatch.Expression), json.Child("expression")) {
			checkExpression(f, compiler, &patch.JSONPatchCondition{Expression: strings.TrimSpace(m.JSONPatch.Expression)}, knows, json.Child("expression"))
		}
		f.Invalid(m.ApplyConfiguration != nil, apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch")
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		f.Need(m.ApplyConfiguration != nil, apply)
		if m.ApplyConfiguration != nil && f.Text(strings.TrimSpace(m.ApplyConfiguration.Expression), apply.Child("expression")) {
			checkExpression(f, compiler, &patch.ApplyConfigurationCondition{Expression: strings.TrimSpace(m.ApplyConfiguration.Expression)}, knows, apply.Child("expression"))
		}
		f.Invalid(m.JSONPatch != nil, json, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration")
	default:
		kind.Known(f, m.PatchType, at.Child("patchType"), admissionregistrationv1.PatchTypeApplyConfiguration, admissionregistrationv1.PatchTypeJSONPatch)
	}
}

func validateValidatingPolicyBinding(binding, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	var f kind.Findings
	checkBinding(&f, binding.Spec.PolicyName, binding.Spec.ParamRef, binding.Spec.MatchResources, false)
	actions, at := binding.Spec.ValidationActions, kind.SpecPath("validationActions")
	f.Need(len(actions) > 0, at)
	seen := sets.New[string]()
	for i, action := range actions {
		kind.Known(&f, action, at.Index(i), admissionregistrationv1.Audit, admissionregistrationv1.Deny, admissionregistrationv1.Warn)
		f.Unique(string(action), seen, at.Index(i))
	}
	f.Invalid(seen.HasAll("Deny", "Warn"), at, actions, "must not contain both Deny and Warn")
	return f.List
}

func validateMutatingPolicyBinding(binding, _ *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	var f kind.Findings
	checkBinding(&f, binding.Spec.PolicyName, binding.Spec.ParamRef, binding.Spec.MatchResources, true)
	return f.List
}

func checkBinding(f *kind.Findings, policy string, ref *admissionregistrationv1.ParamRef, match *admissionregistrationv1.MatchResources, mutating bool) {
	at := kind.SpecPath()
	if f.Text(policy, at.Child("policyName")) {
		f.Subdomain(policy, at.Child("policyName"))
	}
	if ref != nil {
		checkParamRef(f, ref, at.Child("paramRef"))
	}
	checkMatchResources(f, match, mutating, at.Child("matchResources"))
}

func checkParamRef(f *kind.Findings, ref *admissionregistrationv1.ParamRef, at *field.Path) {
	const message = "name and selector are mutually exclusive"
	if ref.Name != "" {
		f.Messages(kind.PathSegment(ref.Name, false), ref.Name, at.Child("name"))
	}
	f.Add(kind.LabelSelector(ref.Selector, at.Child("selector")))
	f.Forbid(ref.Name != "" && ref.Selector != nil, at.Child("name"), message)
	f.Forbid(ref.Name != "" && ref.Selector != nil, at.Child("selector"), message)
	f.Need(ref.Name != "" || ref.Selector != nil, at)
	if ref.ParameterNotFoundAction == nil || *ref.ParameterNotFoundAction == "" {
		f.Need(false, at.Child("parameterNotFoundAction"))
		return
	}
	kind.Chosen(f, ref.ParameterNotFoundAction, at.Child("parameterNotFoundAction"), admissionregistrationv1.DenyAction, admissionregistrationv1.AllowAction)
}

func validateValidatingPolicyStatus(policy, _ *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	at := field.NewPath("status")
	f := kind.Findings{List: metavalidation.ValidateConditions(policy.Status.Conditions, at.Child("conditions"))}
	if policy.Status.TypeChecking != nil {
		for i, warning := range policy.Status.TypeChecking.ExpressionWarnings {
			here := at.Child("typeChecking", "expressionWarnings").Index(i)
			f.Text(warning.Warning, here.Child("warning"))
			f.Text(warning.FieldRef, here.Child("fieldRef"))
		}
	}
	return f.List
}
