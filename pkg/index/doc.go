// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index answers label and field selectors from posting lists.
//
// [Postings] is one index: it says which objects have which value of a label or a field. A
// clone takes constant time, so that an index can be part of a snapshot. [NewPlan] chooses
// the shortest posting lists that hold every match of a selector; [Plan.Whole] says whether
// these hold nothing else. [OnDemand] makes the indexes that queries ask for, and drops an
// index that no query asks for any more.
//
// [Fields] is the registry of one informer: it knows which fields are declared with
// IndexField, and the extraction function of each. [Fields.Select] turns a field selector
// into a [Selection].
//
// # Contract
//
//   - Values are compared as strings. An object may have any number of values of a field; a
//     requirement is met if one of them is equal.
//   - The extraction functions of a field are called for one object at a time, and must not
//     change it. If a function panics, the object has no values of the field;
//     utilruntime.HandleCrash decides whether the process goes on.
//   - Fields, OnDemand, Selection and Plan are safe for concurrent use. Postings can be read by
//     several goroutines, and written by one while no other uses them.
//   - An informer that is not Tarn's has no posting lists, but indexes of client-go. Their keys
//     follow controller-runtime's convention: a value of a namespaced object stands twice, under
//     the namespace and for queries across all namespaces.
//
// # Files
//
// fields.go has the registry, selection.go what a field selector selects, postings.go the
// posting lists, plan.go the choice among them, on_demand.go the indexes that come and go, key.go
// the names and keys of indexes, errors.go the errors.
package index
