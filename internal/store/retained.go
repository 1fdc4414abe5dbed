// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"math"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// held returns how many bytes each view of a store holds beside the state of now. A version of an object that several views
// hold counts for the newest of them, so that the sum is what all hold.
//
// The number of events bounds how many versions a view holds. Only a view for which the bound is too much is compared with the
// next one, object by object.
func (m *size) held(now *watchcache.Snapshot[object.Object], views []engineView) (held []int, allowed budget) {
	size := m.of(now)
	held, allowed = make([]int, len(views)), budgetOf(size.all())
	mean := size.objects() / max(1, now.Len())
	for i, view := range views {
		next := now
		if i+1 < len(views) {
			next = views[i+1].snapshot
		}
		versions := events(view.snapshot, next) * mean
		if versions > allowed.idle/maxPages {
			versions = versionsOf(view.snapshot, next)
		}
		held[i] = versions + nodesOf(view.snapshot, next)
		if view.own != nil {
			held[i] += view.own.Bytes()
		}
	}
	return held, allowed
}

// events bounds the number of versions that a state holds and a later one does not. Two lists that begin together may be kept
// in the other order.
func events(from, to *watchcache.Snapshot[object.Object]) int {
	if from.Replaced() != to.Replaced() {
		return from.Len()
	}
	return min(from.Len(), max(0, int(to.Position())-int(from.Position())))
}

// versionsOf returns the bytes of the versions that a state holds and a later one does not.
func versionsOf(from, to *watchcache.Snapshot[object.Object]) (bytes int) {
	for it := range from.Items("", "") {
		if other, ok := to.Get(it.Key); !ok || !other.Value.Same(it.Value) {
			bytes += len(it.Key) + it.Value.Bytes()
		}
	}
	return bytes
}

// nodeItems is about how many items a node of a tree has: 31 if they came in their order, up
// to 63 otherwise.
const nodeItems = 36

// nodesOf estimates the bytes of the nodes of trees that were copied for the events between two states. The first event
// in a node copies it, and events are spread over the nodes by chance. Each is taken to change the indexes too.
func nodesOf(from, to *watchcache.Snapshot[object.Object]) int {
	objects, indexes := from.Trees()
	nodes := max(1, float64(from.Len())/nodeItems)
	return int(float64(objects+indexes) * -math.Expm1(-float64(events(from, to))/nodes))
}
