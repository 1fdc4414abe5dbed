// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"slices"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Explanation says how [Find] answers a query.
type Explanation struct {
	// Index is the name of the index whose objects are looked at; empty for none.
	Index string
	// Candidates is how many objects are looked at if the query has no limit.
	Candidates int
	// Whole says that all candidates match: none is compared with the selectors.
	Whole bool
}

// Explain says how q is answered from a state. Pending writes over the state are not counted.
func Explain[V any](state *watchcache.Snapshot[V], q *Query[V]) Explanation {
	switch {
	case q.Fields.Nothing():
		return Explanation{Whole: true}
	case q.Key != "":
		e := Explanation{Whole: q.Selects == nil}
		if _, ok := state.Get(q.Key); ok {
			e.Candidates = 1
		}
		return e
	}
	if plan, ok := planOf(state, q); ok {
		return Explanation{Index: plan.Index, Candidates: plan.Count, Whole: plan.Whole}
	}
	return Explanation{Candidates: state.Count(q.Prefix, q.From), Whole: q.Selects == nil}
}

// Missing returns the names of the indexes that there are not, and that would be made if queries like
// q went on. It does not count q among them.
func (p *Planner[V]) Missing(q *Query[V]) []string {
	_, names := p.worth(q)
	state := p.engine.Snapshot()
	return slices.DeleteFunc(names, func(name string) bool { return state.Index(name) != nil })
}
