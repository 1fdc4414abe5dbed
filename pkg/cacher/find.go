// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/watchcache"
)

// query returns what opts ask for below key, from the key from on.
func (c *Cacher) query(key, from string, opts storage.ListOptions) *query.Query[*element] {
	match := newFilter(key, opts.Predicate, c.elements)
	q := &query.Query[*element]{Prefix: c.indexes.prefix(key), From: from, Limit: limitOf(opts), MayBeMore: true}
	if !opts.Recursive {
		q.Key = key
	}
	if !match.everything {
		q.Labels, q.Fields = opts.Predicate.Label, index.SelectExact(opts.Predicate.Field)
		q.Selects = func(item watchcache.Item[*element]) bool { return match.matchesAttributes(item.Value) }
	}
	if match.sharded {
		q.Accepts = func(item watchcache.Item[*element]) (bool, error) {
			var object runtime.Object
			return match.matchesShard(item.Value, &object)
		}
	}
	return q
}

// limitOf returns how many objects a list may have; zero is no limit. A list that takes
// whatever the cache has gets all of it, as with upstream.
func limitOf(opts storage.ListOptions) int {
	if opts.Predicate.Limit <= 0 || opts.ResourceVersion == "0" {
		return 0
	}
	return int(opts.Predicate.Limit)
}

// filter says which objects a list or a watch is about.
type filter struct {
	prefix     string
	predicate  storage.SelectionPredicate
	elements   *elements
	everything bool // that has the prefix
	sharded    bool
}

func newFilter(prefix string, p storage.SelectionPredicate, e *elements) *filter {
	f := &filter{prefix: prefix, predicate: p, elements: e, everything: p.Empty()}
	f.sharded = p.ShardSelector != nil && !p.ShardSelector.Empty() &&
		utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch)
	return f
}

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
	if f.everything {
		return true
	}
	if l := f.predicate.Label; l != nil && !l.Empty() && !l.Matches(e.labelView()) {
		return false
	}
	s := f.predicate.Field
	return s == nil || s.Empty() || s.Matches(&e.fields)
}
