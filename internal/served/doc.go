// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package served says which kinds the API server serves, and tells when that changes.
//
// A [Follower] has a queue of versions of groups. Events of CRDs and APIServices, answers of 404 and timers add to it. For each
// of them the Follower asks discovery, and tells the followers of its kinds.
//
// # Contract
//
//   - A kind is absent after two answers without it, 100 ms apart, or after one if its CRD was deleted: a server that
//     has just started may not know all of its kinds. One answer is enough to say that a kind is served.
//   - After an event, discovery may be some seconds behind. The Follower asks ten times in ten seconds, and less if the
//     answers show what has happened.
//   - The Follower goes on to ask, at least once a minute, in four cases: CRDs or APIServices may not be watched; another server
//     serves the version of an absent kind; a kind has gone without an event; discovery fails.
//   - Each version is asked for by one goroutine at a time, which tells of the answer. A server that does not answer for one
//     keeps no other one waiting.
//
// # Files
//
//   - follower.go has the Follower with its queue and its questions, kind.go what answers and events say of a kind, definitions.go
//     the watches of CRDs and APIServices.
//   - source.go lists and watches a kind that may not be served yet.
package served
