// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import "iter"

// Diff leads from one state to another.
type Diff[V, A any] struct {
	// From is the state that the cursor has seen, To the state after the Diff.
	From, To *Snapshot[V]

	initial bool
}

// Initial reports that the cursor was given nothing before: neither a batch, not even one of
// an empty state, nor a snapshot to begin with.
func (d *Diff[V, A]) Initial() bool { return d.initial }

// Events walks the changes, one for each key that differs, in the order of the keys. An object with
// the same revision in both states has not changed, unless the revision is 0 (not known), or
// Restore was called between the two. The events are made while they are walked, and may be walked
// more than once.
func (d *Diff[V, A]) Events() iter.Seq[Event[V, A]] {
	return func(yield func(Event[V, A]) bool) {
		from, to := d.From.items.Iter(), d.To.items.Iter()
		hasFrom, hasTo := from.First(), to.First()
		for hasFrom || hasTo {
			var event Event[V, A]
			switch {
			case !hasTo || hasFrom && from.Item().Key < to.Item().Key:
				gone := from.Item()
				event = Event[V, A]{Type: Deleted, Item: Item[V]{Key: gone.Key, Revision: d.To.revision}, Previous: gone}
				hasFrom = from.Next()
			case !hasFrom || to.Item().Key < from.Item().Key:
				event = Event[V, A]{Type: Added, Item: to.Item()}
				hasTo = to.Next()
			default:
				event = Event[V, A]{Type: Updated, Item: to.Item(), Previous: from.Item()}
				hasFrom, hasTo = from.Next(), to.Next()
				if event.Item.Revision == event.Previous.Revision && event.Item.Revision != 0 && d.From.restored == d.To.restored {
					continue
				}
			}
			if !yield(event) {
				return
			}
		}
	}
}
