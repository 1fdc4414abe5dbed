// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// specPath is where most rules look.
func specPath(names ...string) *field.Path {
	path := field.NewPath("spec")
	for _, name := range names {
		path = path.Child(name)
	}
	return path
}

// frozen refuses a change of a field.
func frozen(value, old any, path *field.Path) field.ErrorList {
	return apivalidation.ValidateImmutableField(value, old, path)
}

// notNegative checks an optional number.
func notNegative(value *int32, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*value), path)
}

// oneOf checks an enumerated value.
func oneOf[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	for _, s := range supported {
		if value == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// invalidIf turns messages about a value into errors.
func invalidIf(messages []string, value any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range messages {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

// required refuses an empty string.
func required(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// labelSelector checks the syntax of an optional selector.
func labelSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, path)
}

// templateSelector checks the selector of a controller: it must be there, select something, and match the labels of the
// template.
func templateSelector(selector *metav1.LabelSelector, template map[string]string, path *field.Path) field.ErrorList {
	const mismatch = "`selector` does not match template `labels`"
	if selector == nil {
		return field.ErrorList{
			field.Required(path.Child("selector"), ""),
			field.Invalid(path.Child("template", "metadata", "labels"), template, mismatch),
		}
	}
	errs := labelSelector(selector, path.Child("selector"))
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path.Child("selector"), selector, "empty selector is invalid for this kind"))
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return append(errs, field.Invalid(path.Child("selector"), selector, "invalid label selector"))
	}
	if !parsed.Empty() && !parsed.Matches(labels.Set(template)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), template, mismatch))
	}
	return errs
}

// countOrPercent checks a number of Pods, or a share of them.
func countOrPercent(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	if value.Type == intstr.Int {
		return apivalidation.ValidateNonnegativeField(int64(value.IntValue()), path)
	}
	return invalidIf(validation.IsValidPercent(value.StrVal), value, path)
}

// notNegativeQuantity checks a quantity.
func notNegativeQuantity(value resource.Quantity, path *field.Path) field.ErrorList {
	if value.Sign() < 0 {
		return field.ErrorList{field.Invalid(path, value.String(), "must be greater than or equal to 0")}
	}
	return nil
}
