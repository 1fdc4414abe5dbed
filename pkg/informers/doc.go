// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers keeps the informers of a cache.
//
// A [Map] holds the informers of one scope: one namespace or all of them, with one set of selectors
// and options. Its keys are a kind together with the [Representation] in which the kind is cached.
// Its values are [MapEntry], a SharedIndexInformer with the reader of its store. The informer is
// that of package internal/informer, unless the user supplies one. Package internal/listwatch lists and watches for it.
//
// # Contract
//
// A Map is safe for concurrent use. Informers may be added, removed and waited for before, while
// and after the map is started. Start owns every goroutine of the map. It returns once all of them
// have ended, also those of removed informers.
//
// An informer that does not sync has a reason: a [NotSyncedError] with a [Cause], which is the error
// of a wait that times out. A [FailurePolicy] says which calls wait meanwhile. An entry that fails keeps no
// other one from anything, unless its policy is FailFast.
//
// # Files
//
//   - map.go has Map, options.go its options, runner.go its goroutines, entry.go the informer and the reader of a key,
//     and starter.go tells of the informers that reads have started.
//   - representation.go has Key and Representation; source.go chooses how a key is listed
//     and watched, storage.go how its objects are kept.
//   - sync.go waits for entries as their policies say; cause.go tells causes apart, and
//     not_synced.go is the error. unwatchable.go has the error of a kind that cannot be watched.
//   - shared_watch.go has the one watch of a kind whose representations share it.
//   - optional.go makes the entry of a kind dormant that is not served; package internal/served says when that is.
//   - pending_writes.go shows in reads what the program has written, and pending_writes_ask.go asks the server about it;
//     written.go knows which kinds the program has written.
//   - hold.go holds entries, and removes those that nobody holds; leave.go ends a map before its cache.
//   - phase.go and age.go have what people and probes ask of an entry, follow.go its events without objects, and
//     sample.go what metrics read. errors.go has the other errors that users meet.
package informers
