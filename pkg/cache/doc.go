// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache is an informer cache for controller-runtime. It is adopted with
// one line:
//
//	ctrl.NewManager(cfg, ctrl.Options{NewCache: cache.New})
//
// The types and options are controller-runtime's own. What differs from its
// cache is listed in the README, and is meant to be better:
//
//   - lists are sorted by namespace and name, and carry a resourceVersion;
//   - a read that gives up waiting for an informer says what that one waits for;
//   - metadata.name and metadata.namespace can be selected without an index, and
//     a field selector may use != beside =;
//   - several controllers can declare the same field index.
//
// # Concurrency
//
// A cache is safe for concurrent use, before, while and after it runs. Start owns
// all its goroutines and returns when they have ended.
package cache
