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
// A lease that expires deletes all its objects at one revision, and a storage sends these events
// one after the other. Were they written one by one, a list or a bookmark between two of them would
// promise a revision before all its events are there, and a watch from that revision would never
// see the rest. So these deletions wait for the proof that no more events have their revision: an
// event of a later revision, or the storage's report of its progress. The group asks for that
// report meanwhile. Upstream's Cacher writes them one by one.
//
// A group belongs to the goroutine of the list-watch, but for expires.
type revisionGroup struct {
	progress progressRequester
	expires  atomic.Bool // several objects may be deleted at one revision

	changes []dispatch.Change // of one revision; empty if none is held back
	newest  uint64            // the revision of the event before
}

// progressRequester has the storage report its progress from Add to Remove.
type progressRequester interface {
	Add()
	Remove()
}

// before returns the changes that are complete because an event of revision comes, and lets them
// go.
func (g *revisionGroup) before(revision uint64) []dispatch.Change {
	if g.newest == revision {
		return nil
	}
	return g.take()
}

// hold holds a change back, if more of its revision may come. It returns false if the change is to
// be written at once.
func (g *revisionGroup) hold(change dispatch.Change) bool {
	if g.newest == change.Item.Revision {
		g.expires.Store(true) // or another program writes several objects at once
	}
	g.newest = change.Item.Revision
	if !g.open() {
		if !change.Deleted || !g.expires.Load() || !delegator.ConsistentReadSupported() {
			return false
		}
		g.progress.Add()
	}
	g.changes = append(g.changes, change)
	return true
}

// open reports that changes are held back.
func (g *revisionGroup) open() bool { return len(g.changes) > 0 }

// begin forgets what was held back: a new list has it.
func (g *revisionGroup) begin() {
	g.take()
	g.newest = 0
}

// take empties the group and returns what was held back.
func (g *revisionGroup) take() []dispatch.Change {
	changes := g.changes
	if g.changes = nil; len(changes) > 0 {
		g.progress.Remove()
	}
	return changes
}
