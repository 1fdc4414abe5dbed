// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index answers label and field selectors from posting lists.
//
// [Postings] is one index: which objects have which value of a label or a field. It
// can be cloned in constant time, so that it can be part of a snapshot. [NewPlan]
// chooses the shortest posting lists that hold every match of a selector; [Plan.Whole]
// says whether they hold nothing else. [OnDemand] has the indexes kept that queries ask
// for, and dropped when none does.
//
// A [Fields] is the registry of one informer: which field names are declared with
// IndexField, and by which extraction function. [Fields.Select] turns a field
// selector into a [Selection]. Values are compared as strings; an object may yield
// any number of values, and a requirement holds when one of them is equal. The
// extraction functions of a field are called for one object at a time. An object at
// which one panics has no values of the field, if the process goes on at all: see
// utilruntime.HandleCrash.
//
// In an informer of client-go's kind, which has no posting lists, the keys of a field
// index follow controller-runtime's convention: every value is filed twice for a
// namespaced object, once under its namespace and once for queries across all
// namespaces.
package index
