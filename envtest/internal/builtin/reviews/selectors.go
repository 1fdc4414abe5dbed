// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reviews

import (
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// resourceRecord is what a review about a resource asks of the authorizer.
func resourceRecord(who user.Info, in *authorizationv1.ResourceAttributes) authorizer.AttributesRecord {
	record := authorizer.AttributesRecord{
		User: who, Verb: in.Verb, Namespace: in.Namespace, APIGroup: in.Group, APIVersion: in.Version, Resource: in.Resource,
		Subresource: in.Subresource, Name: in.Name, ResourceRequest: true,
	}
	kind.Unset(&record.APIVersion, "*")
	if selector := in.LabelSelector; selector != nil {
		record.LabelSelectorRequirements, record.LabelSelectorParsingErr = labelRequirements(selector)
	}
	if selector := in.FieldSelector; selector != nil {
		record.FieldSelectorRequirements, record.FieldSelectorParsingErr = fieldRequirements(selector)
	}
	return record
}

// labelRequirements returns the requirements of a selector that are understood, and what is wrong with the others. To leave one out asks for
// more rights.
func labelRequirements(selector *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if selector.RawSelector != "" {
		parsed, err := labels.Parse(selector.RawSelector)
		if err != nil {
			return nil, err
		}
		requirements, _ := parsed.Requirements()
		return requirements, nil
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var requirements labels.Requirements
	var errs []error
	for _, r := range selector.Requirements {
		operator, ok := operators[r.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", r.Operator))
			continue
		}
		requirement, err := labels.NewRequirement(r.Key, operator, r.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		requirements = append(requirements, *requirement)
	}
	return requirements, errors.Join(errs...)
}

// fieldRequirements does the same for fields. A requirement of a field has one value.
func fieldRequirements(selector *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if selector.RawSelector != "" {
		parsed, err := fields.ParseSelector(selector.RawSelector)
		if err != nil {
			return nil, err
		}
		return parsed.Requirements(), nil
	}
	operators := map[metav1.FieldSelectorOperator]selection.Operator{
		metav1.FieldSelectorOpIn: selection.Equals, metav1.FieldSelectorOpNotIn: selection.NotEquals,
	}
	var requirements fields.Requirements
	var errs []error
	for _, r := range selector.Requirements {
		operator, ok := operators[r.Operator]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%q is not a valid field selector operator", r.Operator))
		case len(r.Values) != 1:
			errs = append(errs, fmt.Errorf("operator %q without a single value cannot be evaluated", r.Operator))
		default:
			requirements = append(requirements, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
		}
	}
	return requirements, errors.Join(errs...)
}

// selectorTroubles says which selectors were not understood.
func selectorTroubles(record authorizer.AttributesRecord) []string {
	var troubles []string
	tell := func(name string, understood int, err error) {
		switch {
		case err != nil && understood > 0:
			troubles = append(troubles, "spec.resourceAttributes."+name+" partially ignored due to parse error")
		case err != nil:
			troubles = append(troubles, "spec.resourceAttributes."+name+" ignored due to parse error")
		}
	}
	tell("fieldSelector", len(record.FieldSelectorRequirements), record.FieldSelectorParsingErr)
	tell("labelSelector", len(record.LabelSelectorRequirements), record.LabelSelectorParsingErr)
	return troubles
}
