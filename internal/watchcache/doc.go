// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watchcache is the engine of both halves of the pipeline: something
// lists and watches a source and writes into it; it keeps the newest state and a
// window of the events that subscribers wait for; readers take snapshots of the
// state, and subscribers follow the events. An informer stands on it, and so can a
// server's Cacher.
//
// It knows nothing of Kubernetes but that objects have a key and a revision. What
// it keeps of an object is a value of the type V, which it never changes.
//
// # The contract
//
// Writes are atomic and totally ordered. Apply makes each of its changes one
// event; Replace is one step, in which the new state takes the place of the old.
//
// The revision of the engine goes back only with a Replace, when the source itself
// has. State at revision R holds every
// change up to R that was written; WaitUntilFresh(R) returns when that is so.
//
// A [Snapshot] never changes and is taken in constant time. Its items are in the
// order of their keys, and its indexes are of the same moment.
//
// A subscriber sees the changes of each key in their order, and never a state that
// is older than one it has seen. After it has consumed everything that Next
// returned, it has seen exactly the state of a moment. Nothing is promised of the
// order between different subscribers, and nothing about when they see an event.
//
// A subscriber reads at its own pace and delays nobody: neither writers nor other
// subscribers. As long as what it was not given is in the window it is active, and
// sees every event. An event that all active subscribers were given leaves the
// window: an engine whose subscribers keep up, or that has none, holds no events. If
// a subscriber falls out of the window, it is lagging: the engine then keeps, in
// place of the events, the state that the subscriber has seen, and its next batch is
// a [Diff] from that to the state of now, with one change for each key that differs.
// So no subscriber makes the engine grow without bound: the most that it holds back
// is one old state. The first batch of every subscriber is a Diff too, from the empty
// state, and so is the one after a Replace.
//
// # Silent changes
//
// A silent change takes its place among the events, but is not given to anybody: who
// passes its place has the change among what it has seen, without having been told. So
// the next event of the key leads from the state with the silent change, as it does in
// client-go: an object that was silently deleted is Added again, one that was silently added
// is Updated, and the deletion of one that was silently deleted is no event. The state
// that a lagging subscriber has seen is that at its place, without the silent changes
// behind it; the Diff to the state of now has those too, as the first Diff of a new
// subscriber has. An older state of a history has the silent changes of its time.
//
// # History
//
// With a [History] the window keeps the values of its events too, for some time, and
// readers need no subscription: Position tells where the events after a revision begin,
// Events copies them, WaitForEvents waits for more, and At makes the state of an
// older revision. A position is left behind by the window, never given to another
// event, and so is every position by a Replace: what happened between the states
// before and after it is not known, so the history begins anew at the revision of the new
// one. Oldest says how far it reaches back.
//
// Several events may have one revision, as those of a transaction have. They should be
// written by one Apply: state, history and waiters are of the revision as soon as one
// of them is written. A bookmark moves the revision without an event.
//
// # Concurrency
//
// All methods of Engine and Snapshot are safe for concurrent use; a Subscription
// belongs to one goroutine, except for Close. The engine has one lock and no
// goroutines. It publishes a new state first and wakes waiters afterwards.
package watchcache
