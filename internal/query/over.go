// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"iter"

	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// matchKey answers with the object under the key of q.
func (a *Answer[V]) matchKey(state *watchcache.Snapshot[V], q *Query[V]) (err error) {
	if q.Key < q.From {
		return nil
	}
	if q.Own != nil {
		if own, applies := q.Own.OverKey(q.Key); applies {
			_, err = a.compareOver(&own, q)
			return err
		}
	}
	if item, there := state.Get(q.Key); there {
		_, err = a.compare(item, q, q.Selects)
	}
	return err
}

// compareOver is compare for a pending write over a state, which no index knows.
func (a *Answer[V]) compareOver(own *pending.Over[V], q *Query[V]) (more bool, err error) {
	switch found := len(a.Items); {
	case own.Shown:
		return a.compare(own.Item, q, q.Selects)
	case own.Lost == nil:
		return true, nil
	case own.Any && q.Limit > 0 && found == q.Limit:
		a.More = true
		return false, nil
	case own.Any:
		return false, own.Lost
	default:
		if more, err = a.compare(own.Item, q, q.Selects); err == nil && len(a.Items) > found {
			a.Items = a.Items[:found]
			return false, own.Lost
		}
		return more, err
	}
}

// matchOver answers with a page of the objects that are selected from a state and the pending
// writes over it.
func (a *Answer[V]) matchOver(state *watchcache.Snapshot[V], q *Query[V]) error {
	candidates, plan := candidates(state, q)
	a.Index = plan.Index
	ofState := q.Selects
	if plan.Whole {
		ofState = nil
	}
	for item, own := range q.over(candidates) {
		var more bool
		var err error
		if own != nil {
			more, err = a.compareOver(own, q)
		} else {
			more, err = a.compare(item, q, ofState)
		}
		if err != nil {
			return err
		} else if !more {
			break
		}
	}
	if a.More && q.everything() {
		a.Rest = q.Own.Count(q.Prefix, watchcache.After(a.Items[len(a.Items)-1].Key))
	}
	return nil
}

// over merges pending writes into the objects of the state, both in the order of their keys: it yields an object of
// the state, or the pending write over it.
func (q *Query[V]) over(items iter.Seq[watchcache.Item[V]]) iter.Seq2[watchcache.Item[V], *pending.Over[V]] {
	var over []pending.Over[V]
	for o := range q.Own.Over(pending.Target{Key: q.Prefix, All: true}, q.From) {
		over = append(over, o)
	}
	return func(yield func(watchcache.Item[V], *pending.Over[V]) bool) {
		rest := over
		for item := range items {
			covered := false
			for ; len(rest) > 0 && rest[0].Item.Key <= item.Key; rest = rest[1:] {
				covered = rest[0].Item.Key == item.Key
				if !yield(item, &rest[0]) {
					return
				}
			}
			if !covered && !yield(item, nil) {
				return
			}
		}
		for i := range rest {
			if !yield(rest[i].Item, &rest[i]) {
				return
			}
		}
	}
}
