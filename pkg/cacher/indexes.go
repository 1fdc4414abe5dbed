// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/watchcache"
)

// indexes answer lists by label and field. Those of the configuration are there from the
// start, others are made when a list asks for them.
type indexes struct {
	onDemand *watchcache.OnDemand[*element]
}

// labelPrefix and fieldPrefix begin the names of indexes.
var (
	labelPrefix = index.LabelName("")
	fieldPrefix = index.Name("")
)

func newIndexes(engine *watchcache.Engine[*element], config Config) *indexes {
	var fixed []string
	if config.Indexers != nil {
		for name := range *config.Indexers {
			// The names are those of storage.LabelIndex and storage.FieldIndex.
			if key, ok := strings.CutPrefix(name, storage.LabelIndex("")); ok {
				fixed = append(fixed, index.LabelName(key))
			} else if field, ok := strings.CutPrefix(name, storage.FieldIndex("")); ok && !byKey(field) {
				fixed = append(fixed, index.Name(field))
			}
		}
	}
	for _, name := range fixed {
		engine.AddIndex(name)
	}
	return &indexes{onDemand: watchcache.NewOnDemand(engine, config.Clock, fixed...)}
}

// byKey reports that the order of the keys answers for a field: it needs no index.
func byKey(field string) bool { return field == "metadata.namespace" || field == "metadata.name" }

// plan returns the keys, in order, of the objects that can match, if there is an index by
// which these are fewer than all that begin with the key prefix.
func (x *indexes) plan(state *watchcache.Snapshot[*element], prefix string, p storage.SelectionPredicate) (keys []string, name string, ok bool) {
	byLabel, byField := p.Label, index.SelectExact(p.Field)
	wanted := wantedIndexes(byLabel, p.Field)
	x.onDemand.Ask(wanted...)
	plan, ok := index.NewPlan(byLabel, byField, state.Index, prefix, state.Len())
	if !ok {
		return nil, "", false
	}
	return plan.Keys(), strings.Join(wanted, ","), true
}

// wantedIndexes returns the names of the indexes that could answer.
func wantedIndexes(byLabel labels.Selector, byField fields.Selector) (names []string) {
	for _, key := range index.LabelKeys(byLabel) {
		names = append(names, index.LabelName(key))
	}
	for field := range index.SelectExact(byField).Equals() {
		names = append(names, index.Name(field))
	}
	return names
}
