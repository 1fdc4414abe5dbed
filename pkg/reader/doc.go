// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reader reads objects out of the store of an informer.
//
// A [CacheReader] serves one kind in one scope. [List] reads one or several of
// them into one list, which is how a cache of many namespaces lists across them.
//
// What a reader returns is the caller's own: a deep copy, made straight into the
// object or the list that the caller passed. With deep copies disabled, for the
// kind or for the call, the values are shared with the store and must not be
// modified.
//
// Lists are sorted by namespace and name and carry the resourceVersion up to
// which they are complete.
package reader
