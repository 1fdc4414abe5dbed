// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package element

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Filter says which objects a list or a watch is about.
type Filter struct {
	// Prefix begins the keys of the objects.
	Prefix string
	// Predicate has the selectors.
	Predicate storage.SelectionPredicate

	form    *Form
	byLabel bool // the predicate selects by labels, and
	byField bool // by fields, and
	sharded bool // by shards
}

// NewFilter returns the filter of a predicate for elements of form. The shard selector of the
// predicate counts if shards is set.
func NewFilter(prefix string, p storage.SelectionPredicate, form *Form, shards bool) *Filter {
	return &Filter{
		Prefix: prefix, Predicate: p, form: form,
		byLabel: p.Label != nil && !p.Label.Empty(),
		byField: p.Field != nil && !p.Field.Empty(),
		sharded: shards && p.ShardSelector != nil && !p.ShardSelector.Empty(),
	}
}

// Selects reports that the filter looks at labels or fields.
func (f *Filter) Selects() bool { return f.byLabel || f.byField }

// Sharded reports that the filter looks at the shard of an object.
func (f *Filter) Sharded() bool { return f.sharded }

// Matches reports whether the filter wants an object. It does not look at the prefix. If it
// needs the decoded object it takes that in object, or makes it and leaves it there, so that
// several filters make it once.
func (f *Filter) Matches(e *Element, object *runtime.Object) (bool, error) {
	if !f.MatchesAttributes(e) {
		return false, nil
	}
	return f.MatchesShard(e, object)
}

// MatchesShard is Matches for the shard selector alone.
func (f *Filter) MatchesShard(e *Element, object *runtime.Object) (bool, error) {
	if !f.sharded {
		return true, nil
	}
	if err := f.form.Once(e, object); err != nil {
		return false, err
	}
	return f.Predicate.MatchesSharding(*object)
}

// MatchesAttributes is Matches for the labels and fields alone.
func (f *Filter) MatchesAttributes(e *Element) bool {
	return (!f.byLabel || f.Predicate.Label.Matches(e.labelView())) &&
		(!f.byField || f.Predicate.Field.Matches(&e.fields))
}
