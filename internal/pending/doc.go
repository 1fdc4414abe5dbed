// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pending keeps what a program has written and its watch has not shown yet.
//
// [Writes] hold statements about the server: "at this revision, there was this under the key". The watch makes one
// about all keys, its state. The response to a write makes one about its key: a pending write. The answer to a question
// makes one about a key, or about all keys with a prefix, and is read in place of the state until the state is as new. For
// each key a read shows the statement with the highest revision, so no read goes back in time.
//
// A write without such a response is ambiguous: a key, or all keys with a prefix, may have changed. It has a minimum
// revision: what is known as of then has the write. Reads of what is known as of before ask the server, by one list for
// all that read, because a list has a revision also if there is no object. Unless a response tells the minimum revision,
// it is that of the first answer to a question that was asked after the write, or the server is asked for its revision
// later.
//
// # Contract
//
// A read that begins after Note has returned shows what was noted, or something newer. It loads what is pending first and
// the state afterwards: what it does not find was removed because the state has reached it. A read needs an answer to
// one question of after its begin at most, however much is written meanwhile.
//
// A state has reached a pending write when it is at its revision, and does not hold an older version of the object, as
// when the cache cannot hold the newer one. It has reached a deletion when it does not hold the deleted object.
//
// Note calls no function of a user. Reads have objects made of responses, in goroutines of their own.
//
// Revisions are compared within one history of the source. After a restore from a backup, all that was noted is
// ambiguous.
//
// # Memory
//
// The bytes are bounded by a [Budget]. What has no room is ambiguous. A write ends by its deadline if the watch does not
// reach it.
//
// # Concurrency
//
// All methods are safe for concurrent use. A read with nothing pending loads one pointer. Writers hold the lock of Writes,
// which comes before that of the engine. Goroutines ask the server or make objects, and end with that, at the latest soon
// after Close. A timer runs while anything is pending.
//
// # Files
//
//   - write.go: what a client tells a cache
//   - known.go, entries.go: what is known and what is ambiguous
//   - writes.go, budget.go, sweep.go: how it is noted, bounded and removed
//   - view.go, read.go, ask.go, pauses.go: what reads see, and what they ask the server
//   - look.go: what people see
package pending
