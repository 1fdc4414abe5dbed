// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"strings"

	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/watchcache"
)

// indexes answer lists by label and field. Those of the configuration are there from the
// start, others are made when a list asks for them.
type indexes struct {
	onDemand *watchcache.OnDemand[*element]
	all      string // the prefix of all keys
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
	return &indexes{onDemand: watchcache.NewOnDemand(engine, config.Clock, fixed...), all: config.ResourcePrefix}
}

// byKey reports that the order of the keys answers for a field: it needs no index.
func byKey(field string) bool { return field == "metadata.namespace" || field == "metadata.name" }

// plan returns where to look for the objects that can match, if there is an index by which
// these are fewer than all that begin with the key prefix, and the names of the indexes that
// could answer.
func (x *indexes) plan(state *watchcache.Snapshot[*element], prefix string, p storage.SelectionPredicate) (plan index.Plan, names string, ok bool) {
	if prefix == x.all { // every key has it, and postings are quicker without
		prefix = ""
	}
	count := state.Count(prefix, "")
	wanted := wantedIndexes(p, prefix)
	if count > scanWorth {
		x.onDemand.Ask(wanted...)
	}
	plan, ok = index.NewPlan(p.Label, index.SelectExact(p.Field), state.Index, prefix, count)
	return plan, strings.Join(wanted, ","), ok
}

// scanWorth is the number of objects up to which looking at all of them is quicker than an
// index.
const scanWorth = 128

// wantedIndexes returns the names of the indexes that could answer.
func wantedIndexes(p storage.SelectionPredicate, prefix string) (names []string) {
	for _, key := range index.LabelKeysIn(p.Label, prefix) {
		names = append(names, index.LabelName(key))
	}
	for field := range index.SelectExact(p.Field).Equals() {
		names = append(names, index.Name(field))
	}
	return names
}
