// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/query"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// indexes answer lists by label and field. The indexes of the configuration are there from the
// start, others are made when a list asks for them.
type indexes struct {
	planner *query.Planner[*element.Element]
	all     string // the prefix of all keys
	// configured maps the name of an index of the configuration to its name here.
	configured map[string]string
}

func newIndexes(engine *dispatch.Engine, config Config) *indexes {
	configured := map[string]string{}
	if config.Indexers != nil {
		for name := range *config.Indexers {
			// The names are those of storage.LabelIndex and storage.FieldIndex.
			if key, ok := strings.CutPrefix(name, storage.LabelIndex("")); ok {
				configured[postings.LabelName(key)] = name
			} else if field, ok := strings.CutPrefix(name, storage.FieldIndex("")); ok && !byKey(field) {
				configured[postings.Name(field)] = name
			}
		}
	}
	fixed := slices.Collect(maps.Keys(configured))
	for _, name := range fixed {
		engine.AddIndex(name)
	}
	onDemand := postings.NewOnDemand(engine, config.Clock, fixed...)
	return &indexes{
		planner: query.NewPlanner(engine, onDemand, query.PlannerOptions{Fields: true}),
		all:     config.ResourcePrefix, configured: configured,
	}
}

// byKey reports that the order of the keys answers for a field: it needs no index.
func byKey(field string) bool { return field == element.NamespaceField || field == element.NameField }

// query returns the query for what a filter wants.
func (x *indexes) query(f *element.Filter) *query.Query[*element.Element] {
	q := &query.Query[*element.Element]{Prefix: x.prefix(f.Prefix)}
	if f.Selects() {
		q.Labels, q.Fields = f.Predicate.Label, postings.SelectExact(f.Predicate.Field)
		q.Selects = func(item dispatch.Item) bool { return f.MatchesAttributes(item.Value) }
	}
	if f.Sharded() {
		q.Accepts = func(item dispatch.Item) (bool, error) {
			var object runtime.Object
			return f.MatchesShard(item.Value, &object)
		}
	}
	return q
}

// prefix returns the prefix of a query for the keys that begin with key.
func (x *indexes) prefix(key string) string {
	if key == x.all { // every key has it, and indexes are quicker without
		return ""
	}
	return key
}

// nameOf returns the name of an index in metrics: its name in the configuration, or its kind,
// "label" or "field". Other names are chosen by clients, which could make ever more of them.
func (x *indexes) nameOf(name string) string {
	if configured, ok := x.configured[name]; ok {
		return configured
	}
	switch {
	case name == "":
		return ""
	case strings.HasPrefix(name, postings.LabelName("")):
		return "label"
	}
	return "field"
}
