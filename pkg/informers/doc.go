// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers keeps the informers of a cache.
//
// A [Map] holds the informers of one scope: one namespace or all of them, with
// one set of selectors and options. Its key is a kind together with the
// [Representation] in which it is cached; its values are [MapEntry], which pair
// a SharedIndexInformer with the reader of its store. That informer is our own
// [Informer], on the engine of package watchcache, unless the user supplies one.
//
// # The way of an event
//
// A watch is received by one goroutine, which only cuts it into objects where the
// representation allows it. Workers on all cores decode these, extract the values of
// declared fields and make what is kept of each object, and pass the results on in
// the order of the events. client-go's Reflector writes them into the engine. If
// there is a transform, it is called there, for one object after the other and once
// for each, and what it returns is kept there.
//
// The engine keeps the state and a window of events. Readers take snapshots of the
// state; each event handler follows the window in a goroutine of its own, see
// [Informer] for what it gets if it falls behind.
//
// Handlers must not change the objects that they get. They share them with other
// handlers, and the two objects of an update share memory with each other: of a flat
// store, what the update has left as it was is there once.
//
// # Concurrency
//
// A Map is safe for concurrent use. Informers may be added, removed and waited
// for before, while and after the map is started. Start owns every goroutine of
// the map: it returns once all of them have ended, those of removed informers
// included.
package informers
