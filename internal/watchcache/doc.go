// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watchcache is the engine of both halves of the pipeline. Something lists and
// watches a source and writes into the engine. The engine keeps the newest state and a
// window of the newest events. Readers take snapshots of the state, and cursors walk the
// events. An informer stands on the engine, and so does the server's Cacher.
//
// The engine knows nothing of Kubernetes but that objects have a key and a revision. It keeps an
// object as a value of the type V, which it never changes. A writer may attach a value of the type
// A to an event.
//
// # The contract
//
// Writes are atomic and totally ordered. Apply makes each of its changes one event; Replace
// is one step, in which the new state takes the place of the old.
//
// The revision of the engine goes back only with a Replace, when the source itself has. The
// state at revision R holds every change up to R that was written; WaitUntilFresh(R) returns
// when that is so.
//
// A [Snapshot] never changes and is taken in constant time. Its items are in the order of
// their keys, and its indexes are of the same moment.
//
// # Cursors
//
// A [Cursor] is given the events in their order, each once. Every event has a position; positions
// are consecutive in the order in which the events were written. A cursor reads at its own pace and
// delays nobody: neither writers nor other cursors. Each promise is for one cursor: two cursors may
// see the same event at different times.
//
// A cursor is overrun when the event that it is to be given next leaves the window, or when a
// Replace comes. What follows depends on the kind of cursor.
//
// A merging cursor ([Engine.MergingCursor]) is for readers that want to know the state. As long as
// the cursor is inside the window it is active: the engine keeps the events that it has still to
// read. Outside the window it is lagging: the engine keeps, in place of the events, the state that
// the cursor has seen. The next batch is a [Diff] from that state to the state of now, with one
// event for each key that differs. So a cursor sees the changes of each key in their order and
// never an older state than before, and no cursor makes the engine grow without bound: the most
// that it holds back is one old state. The first batch is a Diff too, from the empty state. An
// event that all active cursors were given leaves the window: an engine whose cursors keep up, or
// that has none, holds no events.
//
// An expiring cursor ([Engine.ExpiringCursor]) is for readers that want each event, and can begin
// anew elsewhere. When it is overrun its methods return [ErrExpired]. The engine knows nothing of
// it, so thousands of them cost nothing while they do not read. Expiring cursors read a [History].
//
// # Silent changes
//
// A silent change takes a position among the events, but no cursor is given it: a cursor that
// passes its position has seen the change without having been told of it. So the next event of the
// key leads from the state with the silent change, as in client-go. After a silent deletion the
// object is Added again, and its deletion is no event. After a silent addition it is Updated. The
// state that a lagging cursor has seen is the state at its position, without the silent changes
// behind it. The Diff to the state of now has those too, and so has the first Diff of a new cursor.
// An older state of a history has the silent changes of its time.
//
// # History
//
// With a [History] the window keeps events with their values for some time, for readers that
// come back for them. Position tells where the events after a revision begin, and At makes
// the state of an older revision. A position is never given to another event. A Replace ends
// all positions before it: what happened between the states before and after it is not known,
// so the history begins anew at the revision of the new state. Oldest says how far the history
// reaches back.
//
// Several events may have one revision, as the events of a transaction have. They should be
// written by one Apply: state, history and waiters are of the revision as soon as one of them
// is written. A bookmark moves the revision without an event.
//
// # Concurrency
//
// All methods of Engine and Snapshot are safe for concurrent use. A Cursor belongs to one
// goroutine, but any goroutine may close it. The engine has one lock and no goroutines. It
// publishes a new state first and wakes waiters afterwards.
//
// # Files
//
//   - engine.go: Engine, and the ways to write: Apply, Replace and Restore
//   - window.go, history.go, budget.go: which events are kept, and for how long
//   - cursor.go, diff.go: how events are read
//   - lag.go: how far behind a cursor is, and what the window holds for cursors
//   - snapshot.go, past.go: the state of now, and older ones
//   - freshness.go: revisions, and how to wait for one
//   - indexes.go, rewrite.go, offlock.go: indexes, a new form of all values, and how both are
//     made while others read and write
//   - observe.go, check.go: for counting memory, and for tests
package watchcache
