// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache is an informer cache for controller-runtime. A program adopts it with one line:
//
//	ctrl.NewManager(cfg, ctrl.Options{NewCache: cache.New})
//
// The types and options are controller-runtime's own. [With] takes options that controller-runtime
// does not have, and [Iterate] walks a list one object at a time. The file docs/differences.md
// lists the deliberate differences from controller-runtime's cache. Among them:
//
//   - objects are kept flat, in a fraction of the memory, see package flat;
//   - lists are sorted by namespace and name, and carry a resourceVersion; with a
//     limit they are read page by page from one state;
//   - label selectors are answered from indexes, which are built when lists need them;
//   - metadata-only reads are answered from objects that are cached already;
//   - a slow event handler takes no more memory: it gets one event for each object that has
//     changed;
//   - a read that gives up waiting for an informer says what the informer waits for, as a
//     [NotSyncedError]; one kind that cannot be cached need not stop the others, and [Ready] and
//     [Live] are checks of health;
//   - a read that starts an informer is logged with its call site, and may be an error for one kind
//     alone, see ReaderFailOnMissingInformer in [TuningByObject];
//   - metadata.name and metadata.namespace can be selected without an index, and
//     a field selector may use != as well as =;
//   - several controllers can declare the same field index.
//
// # Concurrency
//
// A cache is safe for concurrent use before, while and after it runs. Start owns all goroutines of
// the cache and returns when they have ended.
//
// An informer calls its transform, and the function of a field index, for one object at a time.
// Informers of several namespaces may call them at the same time. One goroutine calls an event
// handler. Handlers share the objects of events, and must not change them.
//
// # Files
//
//   - cache.go has the options of controller-runtime, and makes caches. tuning.go has ours; config.go says what of both holds for a kind and
//     a namespace, and name.go which name a cache has.
//   - informer_cache.go is the cache. layout.go and scopes.go find the informers of a kind, namespaced_kinds.go says whether it has
//     namespaces, and kind.go what the kind of an object is.
//   - multi_informer.go is one informer of several scopes. live_namespaces.go has namespaces that come and go, and live_informer.go what
//     is wanted in them.
//   - iterate.go reads one object at a time; miss.go says why a read finds nothing; call_site.go says where a read began.
//   - leases.go has the leases of a cache, own_writes.go the writes of its client, bounds.go its bounds in bytes.
//   - health.go has the checks of health; inspect.go shows the cache to pkg/inspect.
package cache
