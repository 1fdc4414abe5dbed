// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reader reads objects out of the store of an informer.
//
// A [CacheReader] serves one kind in one scope. [List] reads one or several of
// them into one list, which is how a cache of many namespaces lists across them;
// [Iterate] walks the same objects, and makes one at a time.
//
// # Contract
//
// The objects that a reader returns belong to the caller: they are copies, made straight into the
// object or the list that the caller passed. With deep copies disabled, for the kind or for the
// call, values are shared with the store and must not be modified. Such calls also share an object
// that one of them has decoded shortly before.
//
// Lists are sorted by namespace and name, and each is read from one snapshot. Their
// resourceVersion is the one up to which they are complete. A list that a limit cuts short
// has a Continue token, and the next page is read from the same snapshot; a reader keeps
// few snapshots for that, and not for long.
//
// All functions and methods are safe for concurrent use.
//
// # Files
//
//   - reader.go has Get, list.go List with its pages, selection.go what these select, look.go Look, which leaves no trace,
//     iterate.go Iterate, plan.go how a list would be answered, fill.go the writing into the objects and lists of the caller.
//   - page.go has the Continue token, freshness.go what a read waits for.
//
// Package internal/store has the stores, and keeps the states that pages are read from.
package reader
