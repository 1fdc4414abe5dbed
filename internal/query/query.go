// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/postings"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Query says which objects of a state are wanted. The zero Query wants all of them.
type Query[V any] struct {
	// Prefix begins the keys of all objects that are wanted.
	Prefix string
	// From is the first key that may be in the answer: the pages of a list begin behind
	// each other.
	From string
	// Key, if it is set, is the key of the one object that can be wanted.
	Key string
	// Limit is how many objects the answer has at most; zero is no limit.
	Limit int
	// MayBeMore sets [Answer.More] if anything follows that would have to be compared, as an
	// API server does: the page behind may be empty. Otherwise the query goes on to the next
	// match, however far that is.
	MayBeMore bool
	// Own lies over the state, which is its base: its objects are answered in place of those of the
	// state with the same keys, and it hides some. Nil is nothing.
	Own *pending.View[V]

	// Labels and Fields are what an index may answer.
	Labels labels.Selector
	Fields postings.Selection
	// Selects compares an object with Labels and Fields; nil says that all objects match. It is not
	// called for an object that matches by an index.
	Selects func(watchcache.Item[V]) bool
	// Accepts compares an object with what else is wanted, which no index knows; nil
	// accepts all. An error ends the query.
	Accepts func(watchcache.Item[V]) (bool, error)
}

// everything reports that all objects with the prefix are wanted.
func (q *Query[V]) everything() bool { return q.Selects == nil && q.Accepts == nil }

// Answer is what a [Query] finds in a state.
type Answer[V any] struct {
	// Items are the objects, in the order of their keys.
	Items []watchcache.Item[V]
	// More reports that another object follows behind the last of Items, or may.
	More bool
	// Rest is how many follow. It is counted if everything with the prefix is wanted, and
	// otherwise 0.
	Rest int
	// Looked is how many objects were looked at.
	Looked int
	// Index is the name of the index that was used, empty for none.
	Index string
}

// Find returns what q wants of state. The error is one of q.Accepts, or says why the cache cannot hold the
// newest version of an object that q wants. The answer has the objects found before.
func Find[V any](state *watchcache.Snapshot[V], q *Query[V]) (a Answer[V], err error) {
	switch {
	case q.Fields.Nothing():
		return a, nil
	case q.Key != "":
		return a, a.matchKey(state, q)
	case q.Own != nil:
		return a, a.matchOver(state, q)
	case q.everything():
		a.take(state, q)
		return a, nil
	}
	return a, a.match(state, q)
}

// take answers with a page of everything. The rest is counted without being read.
func (a *Answer[V]) take(state *watchcache.Snapshot[V], q *Query[V]) {
	count := -1 // not known yet
	for item := range state.Items(q.Prefix, q.From) {
		if len(a.Items) == q.Limit && q.Limit > 0 {
			a.More = true
			break
		}
		switch len(a.Items) {
		case 0:
			a.Items = make([]watchcache.Item[V], 0, q.cut(few))
		case watchcache.CountFrom:
			count = len(a.Items) + state.Count(q.Prefix, item.Key)
			a.Items = slices.Grow(a.Items, q.cut(count)-len(a.Items))
		}
		a.Items = append(a.Items, item)
	}
	a.Looked = len(a.Items)
	switch {
	case !a.More:
	case count >= 0:
		a.Rest = count - len(a.Items)
	default:
		a.Rest = state.Count(q.Prefix, watchcache.After(a.Items[len(a.Items)-1].Key))
	}
}

// few is how many objects a small page has room for from the first.
const few = 16

// cut returns how many of count objects a page has.
func (q *Query[V]) cut(count int) int {
	if q.Limit > 0 {
		return min(count, q.Limit)
	}
	return count
}

// match answers with a page of what is selected.
func (a *Answer[V]) match(state *watchcache.Snapshot[V], q *Query[V]) error {
	candidates, plan := candidates(state, q)
	a.Index = plan.Index
	selects := q.Selects
	if plan.Whole {
		selects = nil
		a.Items = make([]watchcache.Item[V], 0, q.cut(plan.Count))
	}
	for item := range candidates {
		if more, err := a.compare(item, q, selects); !more || err != nil {
			return err
		}
	}
	return nil
}

// Candidates walks the objects among which are all that q selects, without its limit, in the
// order of their keys.
func Candidates[V any](state *watchcache.Snapshot[V], q *Query[V]) iter.Seq[watchcache.Item[V]] {
	items, _ := candidates(state, q)
	return items
}

// candidates returns them with the plan that they are of; it is the zero Plan if they are all
// with the prefix.
func candidates[V any](state *watchcache.Snapshot[V], q *Query[V]) (iter.Seq[watchcache.Item[V]], postings.Plan) {
	plan, ok := planOf(state, q)
	if !ok {
		return state.Items(q.Prefix, q.From), postings.Plan{}
	}
	return func(yield func(watchcache.Item[V]) bool) {
		for key := range plan.KeysFrom(q.From) {
			if item, ok := state.Get(key); ok && !yield(item) {
				return
			}
		}
	}, plan
}

// compare adds item if it is wanted, and reports whether the next one is. It compares item by selects
// in place of q.Selects.
func (a *Answer[V]) compare(item watchcache.Item[V], q *Query[V], selects func(watchcache.Item[V]) bool) (more bool, err error) {
	full := q.Limit > 0 && len(a.Items) == q.Limit
	if full && q.MayBeMore {
		a.More = true
		return false, nil
	}
	a.Looked++
	if selects != nil && !selects(item) {
		return true, nil
	}
	if q.Accepts != nil {
		if ok, err := q.Accepts(item); !ok || err != nil {
			return true, err
		}
	}
	if full {
		a.More = true
		return false, nil
	}
	a.Items = append(a.Items, item)
	return true, nil
}
