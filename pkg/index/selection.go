// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Selection is a field selector, resolved against the declared fields of a kind.
// The zero value selects everything. It is immutable.
type Selection struct {
	requirements []requirement
	nothing      bool
}

type requirement struct {
	field, value string
	negated      bool
	indexed      bool
	extract      client.IndexerFunc
}

// Select resolves selector; nil selects everything. It understands =, == and !=
// on declared fields, and on metadata.name and metadata.namespace, which need no
// declaration. A field without an index is a [*NotIndexedError].
func (f *Fields) Select(selector fields.Selector) (Selection, error) {
	if selector == nil || selector.Empty() {
		return Selection{}, nil
	}
	required := selector.Requirements()
	if len(required) == 0 {
		return Selection{nothing: true}, nil // fields.Nothing: not empty, and yet without requirements
	}
	s := Selection{requirements: make([]requirement, 0, len(required))}
	for _, r := range required {
		extract, indexed, err := f.extractor(r.Field)
		if err != nil {
			return Selection{}, err
		}
		negated := r.Operator == selection.NotEquals
		if !negated && r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return Selection{}, fmt.Errorf("field selector %q on %s: operator %q is not supported, use =, == or !=",
				selector, Describe(f.gvk), r.Operator)
		}
		s.requirements = append(s.requirements, requirement{
			field: r.Field, value: r.Value, negated: negated, indexed: indexed, extract: extract,
		})
	}
	return s, nil
}

// Nothing reports that no object can match.
func (s Selection) Nothing() bool { return s.nothing }

// Index names an index, and the key in it, whose objects include all that match
// in namespace (empty: in all namespaces). ok is false if no requirement can be
// answered from an index. The objects must still be passed through Matches.
func (s Selection) Index(namespace string) (name, key string, ok bool) {
	for _, r := range s.requirements {
		if r.indexed && !r.negated {
			return Name(r.field), Key(namespace, r.value), true
		}
	}
	return "", "", false
}

// Name returns the object name that every match must have, if there is one.
func (s Selection) Name() (name string, ok bool) {
	for _, r := range s.requirements {
		if r.field == "metadata.name" && !r.indexed && !r.negated {
			return r.value, true
		}
	}
	return "", false
}

// Matches reports whether obj meets every requirement.
func (s Selection) Matches(obj client.Object) bool {
	for _, r := range s.requirements {
		if slices.Contains(r.extract(obj), r.value) == r.negated {
			return false
		}
	}
	return !s.nothing
}
