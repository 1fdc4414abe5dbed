// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package postings answers label and field selectors from posting lists.
//
// [Postings] is one index: it says which objects have which value of a label or a field. A
// clone takes constant time, so that an index can be part of a snapshot. [NewPlan] chooses
// the shortest posting lists that hold every match of a selector; [Plan.Whole] says whether
// these hold nothing else. [OnDemand] makes the indexes that queries ask for, and drops an
// index that no query asks for any more. [Selection] is what a field selector selects.
//
// Values are compared as strings. An object may have any number of values of a field; a requirement
// is met if one of them is equal. OnDemand, Selection and Plan are safe for concurrent use. Several
// goroutines can read Postings. A writer must be their only user.
package postings
