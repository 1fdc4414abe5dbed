// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"slices"

	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PathSegment is the rule for names that may have any character that does not end a segment of a URL path.
func PathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// SpecPath is where most rules look.
func SpecPath(names ...string) *field.Path {
	path := field.NewPath("spec")
	for _, name := range names {
		path = path.Child(name)
	}
	return path
}

// Frozen refuses a change of a field.
func Frozen(value, old any, path *field.Path) field.ErrorList {
	return apivalidation.ValidateImmutableField(value, old, path)
}

// NotNegative checks an optional number.
func NotNegative(value *int32, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*value), path)
}

// OneOf checks an enumerated value.
func OneOf[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	for _, s := range supported {
		if value == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// InvalidIf turns messages about a value into errors.
func InvalidIf(messages []string, value any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range messages {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

// Required refuses an empty string.
func Required(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// LabelSelector checks the syntax of an optional selector.
func LabelSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, path)
}

// TemplateSelector checks the selector of a controller: it must be there, select something, and match the labels of the
// template.
func TemplateSelector(selector *metav1.LabelSelector, template map[string]string, path *field.Path) field.ErrorList {
	const mismatch = "`selector` does not match template `labels`"
	if selector == nil {
		return field.ErrorList{
			field.Required(path.Child("selector"), ""),
			field.Invalid(path.Child("template", "metadata", "labels"), template, mismatch),
		}
	}
	errs := LabelSelector(selector, path.Child("selector"))
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

// CountOrPercent checks a number of Pods, or a share of them.
func CountOrPercent(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	if value.Type == intstr.Int {
		return apivalidation.ValidateNonnegativeField(int64(value.IntValue()), path)
	}
	return InvalidIf(validation.IsValidPercent(value.StrVal), value, path)
}

// NotNegativeQuantity checks a quantity.
func NotNegativeQuantity(value resource.Quantity, path *field.Path) field.ErrorList {
	if value.Sign() < 0 {
		return field.ErrorList{field.Invalid(path, value.String(), "must be greater than or equal to 0")}
	}
	return nil
}

// AnnotationsPath is where the annotations of an object are.
func AnnotationsPath() *field.Path { return field.NewPath("metadata", "annotations") }

// AnnotationJSON reads what an annotation has in JSON, if there is something. Unreadable values are reported at unreadable.
func AnnotationJSON[T any](f *Findings, annotations map[string]string, key string, at, unreadable *field.Path) (content T, ok bool) {
	text := annotations[key]
	if text == "" {
		return content, false
	}
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		f.Invalid(true, unreadable, key, err.Error())
		return content, false
	}
	return content, true
}

// PathSegmentName checks a name that is part of a URL, and must be there.
func (f *Findings) PathSegmentName(name string, at *field.Path) {
	if f.Text(name, at) {
		f.Messages(content.IsPathSegmentName(name), name, at)
	}
}

// IsTrue reads an optional flag.
func IsTrue(flag *bool) bool { return flag != nil && *flag }

// Finalizers wants the domain of whoever removes a finalizer in its name.
func (f *Findings) Finalizers(names []string) {
	for i, name := range names {
		standard := name == string(corev1.FinalizerKubernetes) || name == "orphan" || name == "foregroundDeletion"
		f.Invalid(!standard && !strings.Contains(name, "/"), field.NewPath("metadata", "finalizers").Index(i), name,
			"name is neither a standard finalizer name nor is it fully qualified")
	}
}

// DriverName checks the name of a driver of volumes or devices.
func DriverName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(path, "", maxDriverName))
	}
	return append(errs, InvalidIf(validation.IsDNS1123Subdomain(strings.ToLower(name)), name, path)...)
}

const maxDriverName = 63

// TooMany refuses a list that is longer than most.
func TooMany(n, most int, path *field.Path) field.ErrorList {
	if n > most {
		return field.ErrorList{field.TooMany(path, n, most)}
	}
	return nil
}

// Unique refuses the second and later items of the same key.
func Unique[T any](items []T, key func(T) string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, item := range items {
		if k := key(item); seen[k] {
			errs = append(errs, field.Duplicate(path.Index(i), k))
		} else {
			seen[k] = true
		}
	}
	return errs
}

// ExactlyOne refuses anything but one of the alternatives.
func ExactlyOne(path *field.Path, value any, set int, alternatives string) field.ErrorList {
	switch {
	case set == 0:
		return field.ErrorList{field.Required(path, fmt.Sprintf("exactly one of %s is required", alternatives))}
	case set > 1:
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("exactly one of %s is required, but multiple fields are set", alternatives))}
	}
	return nil
}

// UniqueLabel checks a name that is a DNS label and occurs once, and adds it to seen.
func UniqueLabel(name string, seen sets.Set[string], path *field.Path) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "")}
	case seen.Has(name):
		return field.ErrorList{field.Duplicate(path, name)}
	}
	seen.Insert(name)
	return InvalidIf(validation.IsDNS1123Label(name), name, path)
}

// Amount is the number of a count or of a percentage.
func Amount(value *intstr.IntOrString) int {
	if value == nil {
		return 0
	}
	if share, ok := percent(value); ok {
		return share
	}
	return value.IntValue()
}

func percent(value *intstr.IntOrString) (int, bool) {
	if value == nil || value.Type != intstr.String || len(validation.IsValidPercent(value.StrVal)) > 0 {
		return 0, false
	}
	share, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	return share, err == nil
}

// NotAll refuses a percentage above 100.
func (f *Findings) NotAll(value *intstr.IntOrString, at *field.Path) {
	share, ok := percent(value)
	f.Invalid(ok && share > 100, at, value, "must not be greater than 100%")
}

// Counted is a check of a status: its numbers are not negative, and none of some is above the number of all.
func Counted(all string, parts ...string) func(obj, old runtime.Object) field.ErrorList {
	return func(obj, old runtime.Object) field.ErrorList {
		var f Findings
		status, at := StatusOf(obj), field.NewPath("status")
		numbers := map[string]int64{}
		for i := range status.NumField() {
			name, _, _ := strings.Cut(status.Type().Field(i).Tag.Get("json"), ",")
			value := reflect.Indirect(status.Field(i))
			if value.IsValid() && value.CanInt() {
				numbers[name] = value.Int()
				f.NotNegative(value.Int(), at.Child(name))
			}
		}
		for _, part := range parts {
			f.Invalid(numbers[part] > numbers[all], at.Child(part), numbers[part], "cannot be greater than status."+all)
		}
		if all != "" {
			f.Invalid(numbers["availableReplicas"] > numbers["readyReplicas"], at.Child("availableReplicas"), numbers["availableReplicas"],
				"cannot be greater than readyReplicas")
		}
		f.notDecremented(status, StatusOf(old), at.Child("collisionCount"))
		return f.List
	}
}

// notDecremented refuses to count collisions backwards, in a status that counts them.
func (f *Findings) notDecremented(status, old reflect.Value, at *field.Path) {
	count := func(status reflect.Value) *int32 {
		count := status.FieldByName("CollisionCount")
		if !count.IsValid() {
			return nil
		}
		return count.Interface().(*int32)
	}
	now, was := count(status), count(old)
	f.Invalid(was != nil && (now == nil || *now < *was), at, now, "cannot be decremented")
}

// IsDefault says that one of the annotations marks a class as the default.
func IsDefault(class *metav1.ObjectMeta, annotations ...string) bool {
	return slices.ContainsFunc(annotations, func(key string) bool { return class.Annotations[key] == "true" })
}
