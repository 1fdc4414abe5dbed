// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache is an informer cache for controller-runtime. It is adopted with
// one line:
//
//	ctrl.NewManager(cfg, ctrl.Options{NewCache: cache.New})
//
// The types and options are controller-runtime's own; [With] takes options for
// which it has no word, and [Iterate] walks a list one object at a time. What
// differs from its cache is listed in docs/differences.md, and is meant to be better:
//
//   - objects are kept flat, in a fraction of the memory, see package flat;
//   - lists are sorted by namespace and name, and carry a resourceVersion; with a
//     limit they are read page by page from one state;
//   - label selectors are answered from indexes that lists cause to be built;
//   - metadata-only reads are answered from objects that are cached already;
//   - an event handler that is slow grows no memory and delays nobody: it gets one
//     event for each object that has changed;
//   - a read that gives up waiting for an informer says what that one waits for;
//   - metadata.name and metadata.namespace can be selected without an index, and
//     a field selector may use != beside =;
//   - several controllers can declare the same field index.
//
// # Concurrency
//
// A cache is safe for concurrent use, before, while and after it runs. Start owns
// all its goroutines and returns when they have ended.
//
// Each informer calls its transform, and the function of a field index, for one object
// after the other; informers of several namespaces do so at once. Each event handler is
// called by one goroutine; handlers share the objects of events, and must not
// change them.
package cache
