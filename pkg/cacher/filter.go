// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// filter says which objects a list or a watch is about.
type filter struct {
	prefix    string
	predicate storage.SelectionPredicate
	elements  *elements
	byLabel   bool // the predicate selects by labels, and
	byField   bool // by fields, and
	sharded   bool // by shards
}

// newFilter returns the filter of a predicate; its shard selector counts if shards is set.
func newFilter(prefix string, p storage.SelectionPredicate, e *elements, shards bool) *filter {
	return &filter{
		prefix: prefix, predicate: p, elements: e,
		byLabel: p.Label != nil && !p.Label.Empty(),
		byField: p.Field != nil && !p.Field.Empty(),
		sharded: shards && p.ShardSelector != nil && !p.ShardSelector.Empty(),
	}
}

// selects reports that the filter looks at labels or fields.
func (f *filter) selects() bool { return f.byLabel || f.byField }

// matchesWith does not look at the prefix. The object of e is made at most once, for whoever
// has made it before or wants it afterwards.
func (f *filter) matchesWith(e *element, object *runtime.Object) (bool, error) {
	if !f.matchesAttributes(e) {
		return false, nil
	}
	return f.matchesShard(e, object)
}

// matchesShard looks at the shard selector.
func (f *filter) matchesShard(e *element, object *runtime.Object) (bool, error) {
	if !f.sharded {
		return true, nil
	}
	if err := f.elements.make(e, object); err != nil {
		return false, err
	}
	return f.predicate.MatchesSharding(*object)
}

// matchesAttributes looks at the labels and fields.
func (f *filter) matchesAttributes(e *element) bool {
	return (!f.byLabel || f.predicate.Label.Matches(e.labelView())) &&
		(!f.byField || f.predicate.Field.Matches(&e.fields))
}
