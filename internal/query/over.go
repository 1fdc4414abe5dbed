// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"iter"

	"github.com/tarn-dev/tarn/internal/ownwrites"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// matchKey answers with the object under the key of q.
func (a *Answer[V]) matchKey(state *watchcache.Snapshot[V], q *Query[V]) (err error) {
	item, there := watchcache.Item[V]{}, false
	var lost error
	if q.Own != nil {
		item, there, lost = q.Own.Find(state, q.Key)
	}
	if q.Own == nil || lost != nil {
		item, there = state.Get(q.Key)
	}
	if there && item.Key >= q.From {
		_, err = a.lookOver(item, lost, q, q.Selects)
	}
	return err
}

// lookOver is look for an object of which the cache cannot hold the version that there is by now, unless lost is
// nil: that it was wanted before is reason enough to say so.
func (a *Answer[V]) lookOver(item watchcache.Item[V], lost error, q *Query[V], selects func(watchcache.Item[V]) bool) (more bool, err error) {
	found := len(a.Items)
	more, err = a.look(item, q, selects)
	if lost != nil && err == nil && len(a.Items) > found {
		a.Items = a.Items[:found]
		return false, lost
	}
	return more, err
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
		var lost error
		selects := ofState
		if own != nil {
			lost, selects = own.Lost, q.Selects // no index knows the object
		}
		if more, err := a.lookOver(item, lost, q, selects); err != nil {
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

// over merges what lies over the state into its objects, both in the order of their keys. With each object goes
// what lies over it: nil for nothing, the object itself, or the reason for which it is not the one that there is by
// now.
func (q *Query[V]) over(state *watchcache.Snapshot[V], items iter.Seq[watchcache.Item[V]]) iter.Seq2[watchcache.Item[V], *ownwrites.Over[V]] {
	var over []ownwrites.Over[V]
	for o := range q.Own.Over(state, q.Prefix, q.From) {
		over = append(over, o)
	}
	return func(yield func(watchcache.Item[V], *ownwrites.Over[V]) bool) {
		rest := over
		for item := range items {
			var covering *ownwrites.Over[V]
			for len(rest) > 0 && rest[0].Item.Key <= item.Key {
				next := &rest[0]
				if next.Shown && !yield(next.Item, next) {
					return
				}
				if next.Item.Key == item.Key {
					covering = next
				}
				rest = rest[1:]
			}
			if (covering == nil || covering.Lost != nil) && !yield(item, covering) {
				return
			}
		}
		for i := range rest {
			if rest[i].Shown && !yield(rest[i].Item, &rest[i]) {
				return
			}
		}
	}
}
