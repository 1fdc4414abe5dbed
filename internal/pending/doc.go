// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pending keeps what a program has written and its watch has not shown yet.
//
// [Writes] hold a set of statements about the server: "from this revision on, there is this under the key". The response
// to a write makes one: a pending write. The watch makes one about all keys, its state. For each key a read shows the
// statement of the highest revision, so no read goes back in time.
//
// A write without such a response is ambiguous, for a key or for all keys with a prefix. Its minimum revision is the one by
// which it has happened: a state of before does not say what came of it. Reads of such a state ask the server, by one list
// for all that read, because a list has a revision also if there is no object. The answer makes a statement, about the
// key or as a list of the prefix, which is read in place of the state until the state is as new. Unless a response tells
// the minimum revision, it is that of the first answer to a question that was asked after the write. What nobody reads is
// asked about later.
//
// # Contract
//
// A read that begins after Note has returned shows what was noted, or something newer. It loads the set first and the
// state afterwards: what it does not find was removed because the state has reached it. The watch does not call this
// package: a timer of 250 ms (sweep.go) removes what the state has reached. Only a list and a restore are told, by Listed and Reset.
//
// A read that has to ask ends after two rounds of questions, however much is written meanwhile. The first round asks
// about a few keys one by one. If that does not suffice, the next one asks about all that is read: the answer to a question
// that was asked after the read began is what the read sees. A round may first wait for a question that is under way.
//
// A state has reached a pending write when it is at its revision, and does not hold an older version of the object, as
// when the cache cannot hold the newer one. It has reached a deletion when it does not hold the deleted object. Until a
// state has reached an object that the cache cannot hold, each read that covers its key fails.
//
// Functions of the user run in goroutines of reads, which make objects of responses, and of the timer, which tells what
// has ended: never in a writer's goroutine, nor with a lock held.
//
// Revisions are compared within one history of the source. After a restore from a backup, all that was noted is
// ambiguous.
//
// # Memory
//
// The bytes are bounded by a [Budget]. What has no room is ambiguous, and an answer without room belongs to the
// reads that see it. A write ends by its deadline if the watch does not reach it.
//
// # Concurrency
//
// All methods are safe for concurrent use. A read with nothing pending loads one pointer. Writers hold the lock of Writes,
// which comes before the engine's lock. Goroutines ask the server or make objects, and end with that, at the latest soon
// after Close. A timer runs while anything is pending.
//
// # Files
//
//   - write.go: what a client tells a cache
//   - statement.go, set.go: what is known or ambiguous, and which of two statements stays
//   - writes.go, budget.go, sweep.go: how writes are noted, bounded and removed
//   - view.go, read.go, ask.go, pauses.go: what reads see, and what they ask the server
//   - look.go: what people see
package pending
