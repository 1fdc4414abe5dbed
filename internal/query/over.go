// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"iter"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// get returns the object under the key of q.
func (q *Query[V]) get(state *watchcache.Snapshot[V]) (watchcache.Item[V], bool) {
	if q.Own != nil {
		return q.Own.Get(state, q.Key)
	}
	return state.Get(q.Key)
}

// matchOver answers with a page of what is selected of a state and of what lies over it.
func (a *Answer[V]) matchOver(state *watchcache.Snapshot[V], q *Query[V]) error {
	candidates, plan := candidates(state, q)
	a.Index = plan.Index
	ofState := q.Selects
	if plan.Whole {
		ofState = nil
	}
	for item, own := range q.over(state, candidates) {
		selects := ofState
		if own {
			selects = q.Selects // no index knows the object
		}
		if more, err := a.look(item, q, selects); err != nil {
			return err
		} else if !more {
			break
		}
	}
	if a.More && q.everything() {
		a.Rest = q.Own.Count(state, q.Prefix, watchcache.After(a.Items[len(a.Items)-1].Key))
	}
	return nil
}

// own is an object that lies over a state, or the key of one that is hidden.
type own[V any] struct {
	item  watchcache.Item[V]
	shown bool
}

// over merges what lies over the state into its objects, both in the order of their keys. It is
// true for an object that is not of the state.
func (q *Query[V]) over(state *watchcache.Snapshot[V], items iter.Seq[watchcache.Item[V]]) iter.Seq2[watchcache.Item[V], bool] {
	var over []own[V]
	for item, shown := range q.Own.Over(state, q.Prefix, q.From) {
		over = append(over, own[V]{item, shown})
	}
	return func(yield func(watchcache.Item[V], bool) bool) {
		rest := over
		for item := range items {
			covered := false
			for len(rest) > 0 && rest[0].item.Key <= item.Key {
				covered = rest[0].item.Key == item.Key
				if rest[0].shown && !yield(rest[0].item, true) {
					return
				}
				rest = rest[1:]
			}
			if !covered && !yield(item, false) {
				return
			}
		}
		for _, o := range rest {
			if o.shown && !yield(o.item, true) {
				return
			}
		}
	}
}
