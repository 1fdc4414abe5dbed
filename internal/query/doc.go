// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package query answers lists from a state of the engine: it is the one read path of the
// informer's reader and of the Cacher.
//
// A [Query] says what is wanted, and [Find] returns the [Answer] in four steps:
//
//   - the snapshot: the caller takes the state that is read, of now or of an older
//     revision. Before that, [Planner.Prepare] has indexes made that the query would use.
//   - the plan: the shortest posting list that holds every match, or a walk over the objects
//     in the order of their keys.
//   - the page: at most Limit objects, from the key From on. A plan that answers the
//     selectors whole is not compared with them again.
//   - the count: how many objects follow, without a look at them, if nothing is selected;
//     otherwise whether any does.
//
// A query is read by one goroutine at a time, a Planner by any number.
//
// # Files
//
//   - query.go has the steps, planner.go the plan; over.go reads with pending writes over the state, and explain.go says what was chosen.
package query
