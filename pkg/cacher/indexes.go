// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"maps"
	"slices"
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
	// configured are the names by which the configuration calls those of it.
	configured map[string]string
}

// labelPrefix and fieldPrefix begin the names of indexes.
var (
	labelPrefix = index.LabelName("")
	fieldPrefix = index.Name("")
)

func newIndexes(engine *watchcache.Engine[*element], config Config) *indexes {
	configured := map[string]string{}
	if config.Indexers != nil {
		for name := range *config.Indexers {
			// The names are those of storage.LabelIndex and storage.FieldIndex.
			if key, ok := strings.CutPrefix(name, storage.LabelIndex("")); ok {
				configured[index.LabelName(key)] = name
			} else if field, ok := strings.CutPrefix(name, storage.FieldIndex("")); ok && !byKey(field) {
				configured[index.Name(field)] = name
			}
		}
	}
	fixed := slices.Collect(maps.Keys(configured))
	for _, name := range fixed {
		engine.AddIndex(name)
	}
	return &indexes{onDemand: watchcache.NewOnDemand(engine, config.Clock, fixed...), all: config.ResourcePrefix, configured: configured}
}

// byKey reports that the order of the keys answers for a field: it needs no index.
func byKey(field string) bool { return field == namespaceField || field == nameField }

// plan returns where to look for the objects that can match, if there is an index by which
// these are fewer than all that begin with the key prefix, and the name of the index for
// metrics.
func (x *indexes) plan(state *watchcache.Snapshot[*element], prefix string, p storage.SelectionPredicate) (plan index.Plan, name string, ok bool) {
	if prefix == x.all { // every key has it, and postings are quicker without
		prefix = ""
	}
	count := state.Count(prefix, "")
	wanted := wantedIndexes(p, prefix)
	if count > index.ScanWorth {
		x.onDemand.Ask(wanted...)
	}
	plan, ok = index.NewPlan(p.Label, index.SelectExact(p.Field), state.Index, prefix, count)
	return plan, x.nameOf(wanted), ok
}

// nameOf returns what metrics call the indexes that could answer: by the name of one of the
// configuration, otherwise by their kind, because clients choose what they select by, and
// could make ever more names.
func (x *indexes) nameOf(wanted []string) (name string) {
	for _, index := range wanted {
		if configured, ok := x.configured[index]; ok {
			return configured
		}
		if name = "field"; strings.HasPrefix(index, labelPrefix) {
			name = "label"
		}
	}
	return name
}

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
