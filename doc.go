// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tarn is the entrance to the project; the code is in its packages.
//
// Tarn gives operator authors a local copy of Kubernetes objects that follows the
// API server: a drop-in informer cache for controller-runtime. It has the server
// side of the same pipeline too, an API server with etcd in the test process, so
// that an object's whole way can be exercised in one program.
//
//	 etcd ─► Cacher ─► request handlers ══► Reflector ─► informer ─┬► event handlers
//	                                                 on the engine └► CacheReader: Get, List
//	└────────────── envtest ───────────┘    └────────────────── pkg/cache ─────────────────┘
//
// Begin with examples/quickstart, and with pkg/cache or envtest. The map of all packages is in
// docs/design.md; docs/how-it-works.md follows an object through them. A test (TestImportsAreAllowed)
// lists what each package may import, with the reason; another sees that a program with pkg/cache
// links neither an API server nor etcd.
//
// # Glossary
//
// Each of these words has one meaning in pages and comments:
//
//   - ambiguous write: a write whose result the response does not say; reads ask the server.
//   - catching up: the state of a watcher of the Cacher that reads the history by itself.
//   - cursor: a place in the events of an engine, from which one reader goes on.
//   - decode error: the error of an object that does not fit its Go type.
//   - decoded event: an event with the flat form of its object, and a struct if handlers need one.
//   - dictionary: the strings and values that recur among the flat objects of one store.
//   - dormant kind: an optional kind that the API server does not serve now.
//   - engine: the ordered state and the recent events of one watched source.
//   - fault point: a place in the server at which faults can happen.
//   - flat form: an object as bytes without pointers.
//   - history: the events that the Cacher keeps for watches that come back.
//   - idle timeout: how long a watch may bring nothing before it is ended.
//   - lagging: the state of an event handler that has fallen out of the window.
//   - lease: the claim of one user to a scope, which is cached as long as somebody has one.
//   - minimum revision: the resourceVersion that the watch must reach before a read is answered from it.
//   - pending write: a write of the program that the watch has not shown yet.
//   - posting list: the keys of the objects that have one value of an index.
//   - projection: the fields of the objects of a kind that a cache keeps.
//   - reflector store: what a Reflector writes into, in front of the engine.
//   - retained bytes: the memory that old states hold for lists with pages to come.
//   - ring: the replicas that share keys, each a member with a Lease.
//   - scope: the namespaces and selectors that one informer covers.
//   - shared replay: a whole state that several handlers are told of, with shared objects.
//   - snapshot: a state of one moment, which never changes.
//   - window: the events that some handler of an informer has not received.
package tarn
