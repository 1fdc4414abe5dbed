// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// Scope is a part of a kind. An object must match all fields; one with its zero value matches every object.
type Scope struct {
	// Namespace must be empty for a cluster-scoped kind.
	Namespace string
	Name      string
	Labels    labels.Selector
	// Fields is evaluated by the API server, which must know the fields.
	Fields fields.Selector
}

const (
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// extent is a scope that was checked. It never changes.
type extent struct {
	namespace, name string // empty for all
	labels          labels.Requirements
	fields          fields.Requirements // with those for the name
	selector        informers.Selector  // of the same requirements
}

// check returns the extent of a scope. The error says why no informer can have it.
func (s Scope) check() (extent, error) {
	if s.Labels != nil {
		if _, selectable := s.Labels.Requirements(); !selectable {
			return extent{}, errors.New("labels.Nothing() selects nothing, and cannot be sent to the API server")
		}
	}
	if s.Fields != nil && !s.Fields.Empty() && len(s.Fields.Requirements()) == 0 {
		return extent{}, errors.New("fields.Nothing() selects nothing, and cannot be sent to the API server")
	}
	var terms []fields.Selector
	if s.Name != "" {
		terms = append(terms, fields.OneTermEqualSelector(nameField, s.Name))
	}
	if s.Fields != nil && !s.Fields.Empty() {
		terms = append(terms, s.Fields)
	}
	selector := informers.Selector{Label: s.Labels}
	if len(terms) > 0 {
		selector.Field = fields.AndSelectors(terms...)
	}
	e := extentOf(s.Namespace, selector)
	for _, r := range e.fields {
		if known := e.known(r.Field); known != "" && !holds(r, known) {
			return extent{}, fmt.Errorf("it selects nothing: %s contradicts %s=%s", requirement(r), r.Field, known)
		}
	}
	return e, nil
}

// extentOf returns the extent of what an informer lists and watches.
func extentOf(namespace string, s informers.Selector) extent {
	e := extent{namespace: namespace, selector: s}
	if s.Label != nil {
		e.labels, _ = s.Label.Requirements()
	}
	if s.Field != nil && !s.Field.Empty() {
		e.fields = s.Field.Requirements()
		e.name, _ = s.Field.RequiresExactMatch(nameField)
		if e.namespace == "" {
			e.namespace = s.Namespace()
		}
	}
	return e
}

// within returns the part of e with a namespace and a name; empty stands for what e has.
func (e extent) within(key types.NamespacedName) extent {
	if key.Namespace != "" {
		e.namespace = key.Namespace
	}
	if key.Name != "" && key.Name != e.name {
		e.name = key.Name
		e.fields = append(slices.Clip(e.fields), fields.Requirement{Field: nameField, Operator: selection.Equals, Value: key.Name})
	}
	return e
}

// covers reports whether whoever has e has all of other, and can tell it from the rest.
func (e extent) covers(other extent) bool {
	if e.namespace != "" && e.namespace != other.namespace {
		return false
	}
	for i := range e.labels {
		if !slices.ContainsFunc(other.labels, func(r labels.Requirement) bool { return r.String() == e.labels[i].String() }) {
			return false
		}
	}
	for _, r := range e.fields {
		if known := other.known(r.Field); !other.requires(r) && (known == "" || !holds(r, known)) {
			return false
		}
	}
	return !slices.ContainsFunc(other.fields, func(r fields.Requirement) bool { return !isOfKey(r.Field) && !e.requires(r) })
}

// matches reports whether obj, which is in an extent that covers e, is in e.
func (e extent) matches(obj any) bool {
	m, err := meta.Accessor(obj)
	if err != nil {
		return false // a transform has put something else in its place
	}
	if e.namespace != "" && m.GetNamespace() != e.namespace {
		return false
	}
	for _, r := range e.fields {
		switch {
		case r.Field == nameField && !holds(r, m.GetName()), r.Field == namespaceField && !holds(r, m.GetNamespace()):
			return false
		}
	}
	set := labels.Set(m.GetLabels())
	return !slices.ContainsFunc(e.labels, func(r labels.Requirement) bool { return !r.Matches(set) })
}

// change returns what an update is for whoever sees e alone: Modified, Added if the object enters, Deleted if it leaves, and empty if
// it was not there and is not.
func (e extent) change(before, after any) string {
	switch was, is := e.matches(before), e.matches(after); {
	case was && is:
		return modified
	case is:
		return added
	case was:
		return deleted
	}
	return ""
}

// includes reports whether e has objects with a key, as far as the key tells.
func (e extent) includes(key types.NamespacedName) bool {
	return (e.namespace == "" || e.namespace == key.Namespace) && !e.selector.Excludes(key)
}

// clusterScoped returns the error of an extent with a namespace for a kind that has none.
func (e extent) clusterScoped() error {
	return fmt.Errorf("the kind is cluster-scoped, and the scope has the namespace %q: remove it", e.namespace)
}

// known returns the value that a field of all objects in e has; empty if it is not known.
func (e extent) known(field string) string {
	switch field {
	case nameField:
		return e.name
	case namespaceField:
		return e.namespace
	}
	return ""
}

func (e extent) requires(wanted fields.Requirement) bool {
	return slices.ContainsFunc(e.fields, func(r fields.Requirement) bool { return requirement(r) == requirement(wanted) })
}

// String names the extent in messages.
func (e extent) String() string {
	var parts []string
	if e.namespace != "" {
		parts = append(parts, fmt.Sprintf("namespace %q", e.namespace))
	}
	if text := e.selector.Describe(); text != "" {
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, " and ")
}

func isOfKey(field string) bool { return field == nameField || field == namespaceField }

// holds reports whether a value meets a requirement.
func holds(r fields.Requirement, value string) bool {
	return (value == r.Value) != (r.Operator == selection.NotEquals)
}

// selectorOf returns the selector of a requirement, whatever is in its value.
func selectorOf(r fields.Requirement) fields.Selector {
	if r.Operator == selection.NotEquals {
		return fields.OneTermNotEqualSelector(r.Field, r.Value)
	}
	return fields.OneTermEqualSelector(r.Field, r.Value)
}

// requirement returns the text of a requirement, the same for = and ==.
func requirement(r fields.Requirement) string {
	if r.Operator == selection.NotEquals {
		return r.Field + "!=" + r.Value
	}
	return r.Field + "=" + r.Value
}
