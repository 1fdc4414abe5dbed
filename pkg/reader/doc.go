// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reader reads objects out of the store of an informer.
//
// A [CacheReader] serves one kind in one scope. [List] reads one or several of
// them into one list, which is how a cache of many namespaces lists across them.
//
// What a reader returns is the caller's own: a copy, made straight into the object
// or the list that the caller passed; [Iterate] makes one object at a time. With deep
// copies disabled, for the kind or for the call, the values are shared with the store
// and must not be modified. Of objects that are kept flat, such calls share what one of
// them made shortly before.
//
// Lists are sorted by namespace and name and carry the resourceVersion up to which
// they are complete. Each is read from one snapshot. One that is cut short by a limit
// has a Continue token, with which the next page is read from the same snapshot; a
// reader keeps few of these, and not for long.
//
// # Stores
//
// An [EngineStore] is the store of our own informer. It answers selectors from posting
// lists, see package index, and builds those of a label when a list asks for it. An
// [IndexerStore] is the store of an informer that the user supplies, and gives the same
// answers.
package reader
