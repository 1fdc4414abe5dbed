// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"sync/atomic"

	"k8s.io/apiserver/pkg/storage/cacher/delegator"

	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
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
// A group belongs to the goroutine of the list-watch, but for expires.
type revisionGroup struct {
	write    func(changes ...dispatch.Change) // writes all changes of a revision in one step
	progress progressRequester
	expires  atomic.Bool // several objects may be deleted at one revision

	changes []dispatch.Change // of one revision; empty if none is held back
	newest  uint64            // the revision of the event before
}

// progressRequester has the storage report its progress as long as somebody needs that.
type progressRequester interface {
	Add()
	Remove()
}

// apply writes a change, or holds it back until all of its revision are there.
func (g *revisionGroup) apply(change dispatch.Change) {
	revision := change.Item.Revision
	if g.open() && g.newest != revision {
		g.flush()
	}
	if g.newest == revision {
		g.expires.Store(true) // or somebody else writes several objects at once
	}
	g.newest = revision
	switch {
	case g.open():
		g.changes = append(g.changes, change)
	case change.Deleted && g.expires.Load() && delegator.ConsistentReadSupported():
		g.changes = append(g.changes, change)
		g.progress.Add()
	default:
		g.write(change)
	}
}

// open reports that changes are held back.
func (g *revisionGroup) open() bool { return len(g.changes) > 0 }

// flush writes what was held back.
func (g *revisionGroup) flush() {
	if changes := g.take(); len(changes) > 0 {
		g.write(changes...)
	}
}

// begin forgets what was held back: a new list has it.
func (g *revisionGroup) begin() {
	g.take()
	g.newest = 0
}

// take empties the group.
func (g *revisionGroup) take() []dispatch.Change {
	changes := g.changes
	if g.changes = nil; len(changes) > 0 {
		g.progress.Remove()
	}
	return changes
}
