// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index answers field selectors from indexes that operator authors
// declare with IndexField.
//
// A [Fields] is the registry of one informer: which field names are declared,
// and by which extraction function. [Fields.Select] turns a field selector into
// a [Selection], which names the index to start from and filters what that
// index yields.
//
// The keys of a field index follow controller-runtime's convention: every value
// is filed twice for a namespaced object, once under its namespace and once for
// queries across all namespaces. Values are compared as strings; an object may
// yield any number of values, and a requirement holds when one of them is equal.
package index
