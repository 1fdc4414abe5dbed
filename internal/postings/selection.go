// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package postings

import (
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
)

// Selection is a field selector, resolved against the declared fields of a kind.
// The zero value selects everything. It is immutable.
type Selection struct {
	requirements []requirement
	nothing      bool
	unfit        string
}

type requirement struct {
	field, value string
	negated      bool
	indexed      bool   // by a declared field; otherwise it is one that every object has
	index        string // the name of the index, if indexed
}

// exact reports whether the index of the field finds every match.
func (r *requirement) exact() bool { return r.indexed && !r.negated }

// Declared are the declared fields of an informer, or of a view of one: those of package index.
type Declared interface {
	// IndexOf returns the name of the index of a field, and none for a field that every object has. The error is of a
	// field that is not declared.
	IndexOf(field string) (string, error)
	// Space begins the names of the fields of a view in the names of indexes; it is empty for an informer.
	Space() string
	// String names the kind, for errors.
	String() string
}

// Resolve resolves selector; nil selects everything. It understands =, == and !=. The error is that of IndexOf, or names
// any other operator.
func Resolve(selector fields.Selector, of Declared) (Selection, error) {
	if selector == nil || selector.Empty() {
		return Selection{}, nil
	}
	required := selector.Requirements()
	if len(required) == 0 {
		return Selection{nothing: true}, nil // fields.Nothing: not empty, and yet without requirements
	}
	s := Selection{requirements: make([]requirement, 0, len(required))}
	if space := of.Space(); space != "" {
		s.unfit = Unfit(space)
	}
	for _, r := range required {
		name, err := of.IndexOf(r.Field)
		if err != nil {
			return Selection{}, err
		}
		negated := r.Operator == selection.NotEquals
		if !negated && r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return Selection{}, fmt.Errorf("field selector %q on %s: operator %q is not supported, use =, == or !=", selector, of, r.Operator)
		}
		s.requirements = append(s.requirements, requirement{
			field: r.Field, value: r.Value, negated: negated, indexed: name != "", index: name,
		})
	}
	return s, nil
}

// Every object has these fields, so that nobody need declare them. If somebody does, the
// declared function counts.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// EveryObjectHas reports whether every object has a field, so that nobody need declare it.
func EveryObjectHas(field string) bool { return field == fieldName || field == fieldNamespace }

// Everything reports whether every object matches.
func (s Selection) Everything() bool { return len(s.requirements) == 0 && !s.nothing }

// Nothing reports whether the selector is fields.Nothing, or otherwise known to match no object.
func (s Selection) Nothing() bool { return s.nothing }

// Name returns the name that every match must have. If ok is false, there is no such name.
func (s Selection) Name() (name string, ok bool) { return s.required(fieldName) }

// Namespace returns the namespace that every match must have. If ok is false, there is no such
// namespace.
func (s Selection) Namespace() (namespace string, ok bool) { return s.required(fieldNamespace) }

// required returns the value that every match must have of metadata.name or metadata.namespace.
func (s Selection) required(field string) (value string, ok bool) {
	for _, r := range s.requirements {
		if r.field == field && !r.indexed && !r.negated {
			return r.value, true
		}
	}
	return "", false
}

// Equals walks the requirements with = or == for declared fields: pairs of a field and the value
// that every match must have of it.
func (s Selection) Equals() iter.Seq2[string, string] {
	return func(yield func(field, value string) bool) {
		for _, r := range s.requirements {
			if r.exact() && !yield(r.field, r.value) {
				return
			}
		}
	}
}

// IndexOf returns the name of the index of a declared field that is selected by.
func (s Selection) IndexOf(field string) string {
	for i := range s.requirements {
		if r := &s.requirements[i]; r.field == field {
			return r.index
		}
	}
	return ""
}

// Unfit returns the name of the index of the objects whose values of declared fields are not known, because they do
// not fit the Go type of the view. It is empty if there can be none.
func (s Selection) Unfit() string { return s.unfit }

// Object is what Matches asks about an object.
type Object interface {
	GetName() string
	GetNamespace() string
	// HasFieldValue reports whether value is among the object's values of a declared field.
	HasFieldValue(field, value string) bool
}

// Matches reports whether obj meets every requirement.
func (s Selection) Matches(obj Object) bool {
	for _, r := range s.requirements {
		if r.met(obj) == r.negated {
			return false
		}
	}
	return !s.nothing
}

// MayMatch is Matches for an object whose values of declared fields are not known. A list must select such an
// object: then what reads it reports the error.
func (s Selection) MayMatch(obj Object) bool {
	for _, r := range s.requirements {
		if !r.indexed && r.met(obj) == r.negated {
			return false
		}
	}
	return !s.nothing
}

func (r *requirement) met(obj Object) bool {
	switch {
	case r.indexed:
		return obj.HasFieldValue(r.field, r.value)
	case r.field == fieldName:
		return obj.GetName() == r.value
	default:
		return obj.GetNamespace() == r.value
	}
}

// SelectExact resolves selector without a registry, for a planner alone: it takes every field
// for a declared one, metadata.name and metadata.namespace apart, and every operator other than
// = and == for !=. Matches of the Selection it returns may be wrong.
func SelectExact(selector fields.Selector) Selection {
	if selector == nil || selector.Empty() {
		return Selection{}
	}
	var s Selection
	only := fields.Set{} // what an object has that meets all requirements
	for _, r := range selector.Requirements() {
		exact := r.Operator == selection.Equals || r.Operator == selection.DoubleEquals
		if exact {
			only[r.Field] = r.Value
		}
		s.requirements = append(s.requirements, requirement{
			field: r.Field, value: r.Value, indexed: r.Field != fieldName && r.Field != fieldNamespace, negated: !exact,
			index: Name(r.Field),
		})
	}
	// The requirements of a selector do not say that there is a fields.Nothing in it.
	s.nothing = len(only) == len(s.requirements) && !selector.Matches(only)
	return s
}
