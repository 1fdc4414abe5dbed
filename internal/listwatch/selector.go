// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
)

// Selector restricts what is listed and watched. An object must match both selectors. A nil
// selector matches every object.
type Selector struct {
	Label labels.Selector
	Field fields.Selector
}

func (s Selector) applyTo(opts *metav1.ListOptions) {
	if s.Label != nil {
		opts.LabelSelector = s.Label.String()
	}
	if s.Field != nil {
		opts.FieldSelector = s.Field.String()
	}
}

// maxDescribed is the number of bytes of a selector that a message shows. A selector may be long:
// the selector of a cache for "all other namespaces" names each namespace with an informer of its
// own.
const maxDescribed = 200

// With returns s with more requirements of labels.
func (s Selector) With(more labels.Requirements) Selector {
	if len(more) == 0 {
		return s
	}
	if s.Label == nil {
		s.Label = labels.NewSelector()
	}
	s.Label = s.Label.Add(more...)
	return s
}

// Describe returns the text that names the selectors in messages, and what else restricts the objects. It is empty if nothing does.
func (s Selector) Describe(also ...string) string {
	var parts []string
	if s.Label != nil && !s.Label.Empty() {
		parts = append(parts, fmt.Sprintf("the label selector %q", s.Label))
	}
	if s.Field != nil && !s.Field.Empty() {
		parts = append(parts, fmt.Sprintf("the field selector %q", s.Field))
	}
	parts = append(parts, slices.DeleteFunc(also, func(text string) bool { return text == "" })...)
	text := strings.Join(parts, " and ")
	if len(text) > maxDescribed {
		text = text[:maxDescribed] + "…"
	}
	return text
}

// Excludes reports whether the field selector excludes the object with that key by its name or its
// namespace.
func (s Selector) Excludes(key types.NamespacedName) bool {
	if s.Field == nil {
		return false
	}
	return slices.ContainsFunc(s.Field.Requirements(), func(r fields.Requirement) bool {
		value := key.Name
		switch r.Field {
		case "metadata.name":
		case "metadata.namespace":
			value = key.Namespace
		default:
			return false // no key tells
		}
		if r.Operator == selection.NotEquals {
			return value == r.Value
		}
		return value != r.Value
	})
}

// Namespace returns the one namespace that the field selector selects, or "" if it selects several.
// A list of that namespace needs permissions in that namespace only.
func (s Selector) Namespace() string {
	if s.Field == nil || s.Field.Empty() {
		return ""
	}
	namespace, _ := s.Field.RequiresExactMatch("metadata.namespace")
	return namespace
}
