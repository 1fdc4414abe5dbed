// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"k8s.io/apiserver/pkg/storage/cacher/delegator"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// revisionGroup holds back the events of one revision until all of them are there.
//
// A lease that expires deletes all its objects at one revision, and a storage sends these
// events one after the other. Were they written one by one, a list or a bookmark between two
// of them would promise a revision of which the rest is still to come, and a watch from that
// revision would never see the rest. So the deletions of a resource whose objects expire wait
// for the proof that there are no more of their revision: an event of a later one, or the
// storage's report of its progress, which is asked for meanwhile. Upstream's Cacher writes them
// one by one.
//
// A group belongs to the goroutine of the list-watch.
type revisionGroup struct {
	changes []watchcache.Change[*element, *sharing] // of one revision; empty if there is none
	newest  uint64                                  // the revision of the event before
}

// take empties the group. released is called if it was not empty.
func (g *revisionGroup) take(released func()) []watchcache.Change[*element, *sharing] {
	changes := g.changes
	if g.changes = nil; len(changes) > 0 {
		released()
	}
	return changes
}

// apply writes a change, or holds it back until all of its revision are there.
func (in *intake) apply(change watchcache.Change[*element, *sharing]) {
	g, revision := &in.group, change.Item.Revision
	if len(g.changes) > 0 && g.newest != revision {
		in.writeGroup()
	}
	if g.newest == revision {
		in.expires.Store(true) // or somebody else writes several objects at once
	}
	g.newest = revision
	switch {
	case len(g.changes) > 0:
		g.changes = append(g.changes, change)
	case change.Deleted && in.expires.Load() && delegator.ConsistentReadSupported():
		g.changes = append(g.changes, change)
		in.progress.Add()
	default:
		in.write(change)
	}
}

// writeGroup writes what was held back.
func (in *intake) writeGroup() {
	if changes := in.group.take(in.progress.Remove); len(changes) > 0 {
		in.write(changes...)
	}
}

// write writes all changes of a revision in one step.
func (in *intake) write(changes ...watchcache.Change[*element, *sharing]) {
	in.engine.Apply(changes...)
	for range changes {
		in.metrics.received()
	}
	in.metrics.reached(changes[0].Item.Revision)
}
