// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cacher is the server half of the pipeline: a storage.Interface of k8s.io/apiserver
// that answers reads and watches out of memory and passes writes on, as kube-apiserver's
// watch cache does. It stands on the engine of internal/watchcache.
//
//	store, destroy, err := cacher.StorageWithCacher(nil, cacher.Options{})(config, ...)
//
// A [Cacher] lists and watches the storage below it with client-go's Reflector and writes what
// it receives into an engine, which keeps the newest state, ordered and with indexes, and the
// events of the last 75 seconds, as far as Options.HistoryEvents and HistoryBytes allow.
//
// # Reads
//
// Reads follow the rules of the Kubernetes API for resource versions. A Get without one reads the storage. A consistent list
// asks the storage for its revision, has it report progress, and waits until the cache has come so far. A read at an exact
// revision, and every page of a list, is answered from the state of that revision, which is made by undoing the events since
// then. The storage answers all other reads.
//
// # Watches
//
// One goroutine dispatches events: it puts each into the channels of the watchers that it
// may concern and never waits. A watcher whose channel is full catches up: it reads the
// history in a goroutine of its own until it has caught up. So there is no time budget as in
// upstream's Cacher, which closes a watch that is not read for some milliseconds, and a watcher
// that has nothing to do takes no goroutine.
//
// A watcher expires when the history has passed the event that it needs next, and not before.
// If its client reads, the last event is an error, 410 Expired. If its client does not read,
// there is no room for an event: within a second the channel is closed behind the events that
// are in it, and the client is told 410 when it comes back with the last resource version that
// it has seen, as by upstream's Cacher. Until then a watcher that is not read holds the 16
// events of its channel and the next one, and no state: the rest of the state that it began with
// is made again when its client goes on.
//
// # Revisions with several events
//
// A lease that expires deletes many objects at one revision. These deletions become visible in
// one step: no list, watch or bookmark is between them. The Cacher knows that objects expire
// when one is created with a time to live through it, or when it has received two events of one
// revision. So when another program is the first to write several objects at one revision, that
// revision is written one by one.
//
// # Memory
//
// Objects are kept decoded, or flat if [Options] say so. The history is bounded in events and
// bytes. The dictionary of flat objects is bounded too, and made anew when most of it serves
// objects that are gone.
//
// # Concurrency
//
// All methods of Cacher are safe for concurrent use. The lock of the dispatcher comes before
// the locks of readiness and of the engine, and is held while one event is dispatched. Stop ends
// all goroutines and waits for them.
//
// # Files
//
//   - cacher.go: the Cacher: what it consists of, writes, and its life; config.go: its options
//   - decorator.go: the Cacher as a decorator of a server's storages
//   - lister_watcher.go, reflector_store.go, revision_group.go: from the storage into the engine
//   - get.go, list.go, list_request.go, indexes.go: reads
//   - waiter.go: how a request waits for a revision; readiness.go: and for the first list
//   - watch.go: what is asked of the dispatcher, which is internal/dispatch
//   - checker.go, digests.go: the comparison with the storage
//   - metrics.go, families.go: metrics; features.go: feature gates, read once
//
// internal/element has what is kept of an object.
package cacher
