// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informer is client-go's SharedIndexInformer on package watchcache.
//
// client-go's Reflector lists and watches what a [ListerWatcherFunc] returns, and writes into the engine. The engine
// keeps the state and a window of events. Readers take snapshots of the state, and each event
// handler follows the window in a goroutine of its own.
//
// # The way of an event
//
// The source passes each event to the informer, several at once: the informer extracts the
// values of declared fields and makes what it keeps of the object. The results go to the
// Reflector in the order of the events, and from there into the engine. If there is a
// transform, the source passes decoded objects instead, and does no more with them. reflectorStore.put
// calls the transform, once for each object and for one object after the other, and keeps what it returns.
//
// # Contract
//
// The tests named TestInformer... run on client-go's informer and on this one, and say what
// both promise. [Informer] says what differs.
//
// Handlers must not change the objects that they get. They share them with other handlers, and
// the two objects of an update share memory with each other: what the update has left as it was
// is there once.
//
// RunWithContext owns all goroutines of the informer, and returns when they have ended. The locks
// of the engine, of resyncs and of sharedReplay come after Informer.mu; indexers.mu, reflectorStore.mu and the
// engine's lock are taken in this order. dormancy.mu is held while Observer.Listed runs, so it comes before the locks of
// whatever that calls, and none of the others is held then. No lock is taken while that of sharedReplay is held.
//
// # Files
//
//   - informer.go has Informer and its life, attempts.go its lists and watches, progress.go how far
//     they have come; indexers.go its indexes.
//   - decoded_event.go makes what is kept of an object where a watch is decoded, and reflector_store.go
//     is the store that the Reflector writes into; losses.go has the objects that a transform has
//     failed for, and unindexed.go the objects that the function of an index has failed for. values.go
//     tells the engine what to index.
//   - handler.go tells an event handler, with the shared objects of delivery.go; shared_replay.go shares
//     the objects of a whole state, and resync.go says when a handler is told of it again.
//   - engine_indexer.go is the engine as client-go's Indexer. view.go is an informer whose objects have another Go type, and
//     unfit.go has the objects that do not fit that type.
//   - stats.go has the figures of an informer; follow.go passes its events on without their objects.
package informer
