// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client has a controller-runtime client whose reads show its own writes at once.
//
//	ctrl.NewManager(cfg, ctrl.Options{NewCache: cache.New, NewClient: client.New})
//
// The client is controller-runtime's own, for reads and for writes. When a write has returned, the
// response is laid over what the watch has brought, in every informer of the kind that is running,
// until the watch has passed it. A Get or List of the cache that begins after that, in any goroutine
// and any representation, shows the written object or a newer one, at its place in sorted lists, in
// selectors and pages. No read waits for the watch, with the exceptions that docs/consistency.md
// lists. Event handlers get the events of the watch alone.
//
// # Contract
//
// The client works with a cache of package github.com/tarn-dev/tarn/pkg/cache as
// CacheOptions.Reader. With any other Reader, also with one that wraps such a cache, it is
// controller-runtime's client, and logs that: wrap the client in place of the cache.
//
// No client sends a write with the context of work whose key another replica has (package shard): the error is a
// *shard.NotOwnedError.
//
// A write that would send an object that the cache has kept in part (Fields of its tuning) is refused with a
// BadRequest API error: Create, Update, Apply, and a Patch that is made of such an object and would send all of it, or
// replace a list that is not kept as a whole. Other merge patches have what was changed, and nothing else.
//
// Dry runs are not noted. If no informer holds the kind, only the newest revision is noted: its first list asks for no older one.
// No write starts an informer or waits for one. CacheOptions.EnableReadYourWritesConsistency, with which controller-runtime's
// client waits for the watch, is not needed and has no effect.
//
// # Files
//
//   - client.go has New and the writes, subresource.go those of subresources.
//   - exchange.go sees the requests of a write, response.go decodes their answers, and notes.go says what these mean for the cache.
//   - projected.go refuses writes of objects that a cache has kept in part.
//   - stored_as.go says in objects of which kind a server keeps a write.
//   - options.go has the options of single reads.
package client
