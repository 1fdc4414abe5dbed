// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// planOf returns where to look for what q selects. It is not ok if no index leaves less
// than half of what there is to look at: to walk the objects in their order is quicker then.
func planOf[V any](state *watchcache.Snapshot[V], q *Query[V]) (plan postings.Plan, ok bool) {
	if q.Selects == nil {
		return plan, false
	}
	return postings.NewPlan(q.Labels, q.Fields, state.Index, q.Prefix, state.Count(q.Prefix, "")/2+1)
}

// Snapshotter gives the state that queries are asked of: a watchcache.Engine does.
type Snapshotter[V any] interface {
	Snapshot() *watchcache.Snapshot[V]
}

// Planner has the indexes kept that queries of one engine ask for. It is safe for concurrent
// use.
type Planner[V any] struct {
	engine   Snapshotter[V]
	onDemand *postings.OnDemand
	fields   bool // indexes of fields are made on demand too
}

// PlannerOptions say which indexes a [Planner] has made.
type PlannerOptions struct {
	// Fields makes indexes of fields on demand; otherwise those are all declared.
	Fields bool
}

// NewPlanner returns a planner for the queries of engine. The indexes that engine has
// otherwise must be fixed ones of onDemand, or of fields if those are not made on demand.
func NewPlanner[V any](engine Snapshotter[V], onDemand *postings.OnDemand, o PlannerOptions) *Planner[V] {
	return &Planner[V]{engine: engine, onDemand: onDemand, fields: o.Fields}
}

// Prepare has the indexes built that would spare q work, if enough queries have asked for them.
// Every query calls it before it takes its state. Indexes that no query asks for any more go then.
func (p *Planner[V]) Prepare(q *Query[V]) {
	share, names := p.worth(q)
	p.onDemand.Ask(share, names...)
}

// worth returns the indexes that would spare q work, and which part of all objects q must look at
// without them. There are none if there is little to look at anyway.
func (p *Planner[V]) worth(q *Query[V]) (share float64, names []string) {
	if q.Key != "" || q.Fields.Nothing() || !p.fields && (q.Labels == nil || q.Labels.Empty()) {
		return 0, nil
	}
	state := p.engine.Snapshot()
	looks := state.Count(q.Prefix, "")
	if looks <= postings.ScanWorth {
		return 0, nil
	}
	if plan, few := postings.NewPlan(nil, q.Fields, state.Index, q.Prefix, postings.ScanWorth+1); few {
		if p.made(plan.Index) {
			return 0, []string{plan.Index} // it must not get cold
		}
		return 0, nil
	}
	return float64(looks) / float64(state.Len()), p.couldAnswer(q)
}

// couldAnswer returns the names of all indexes on demand by which q could be answered.
func (p *Planner[V]) couldAnswer(q *Query[V]) []string {
	names := Labels(q.Labels, q.Prefix)
	if p.fields {
		for field := range q.Fields.Equals() {
			names = append(names, postings.Name(field))
		}
	}
	return names
}

func (p *Planner[V]) made(name string) bool {
	return p.fields || strings.HasPrefix(name, postings.LabelName(""))
}

// Labels returns the names of the indexes of labels that could answer selector, for keys
// that begin with prefix.
func Labels(selector labels.Selector, prefix string) (names []string) {
	for _, key := range postings.LabelKeys(selector, prefix) {
		names = append(names, postings.LabelName(key))
	}
	return names
}

// OnDemandIndexes is what the indexes take that were made on demand.
type OnDemandIndexes struct {
	// Number of indexes.
	Number int
	// Postings is how many pairs of a value and an object they hold.
	Postings int
	// Bytes is an estimate of the memory that they take.
	Bytes int
}

// Indexes returns what the indexes on demand take now.
func (p *Planner[V]) Indexes() OnDemandIndexes {
	names := p.onDemand.Asked()
	size, state := OnDemandIndexes{Number: len(names)}, p.engine.Snapshot()
	for _, name := range names {
		if pairs := state.Index(name); pairs != nil {
			size.Postings += pairs.Len()
			size.Bytes += pairs.Bytes()
		}
	}
	return size
}
