// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pending keeps what a program has written and its watch has not shown yet.
//
// [Writes] hold one statement for each key that was written. It has what is known: "from this revision on, there is this under
// the key", as the response to a write says. And it has the minimum revision, by which ambiguous writes have happened: those
// without such a response. The watch says what is under all keys at its revision. A read shows what is known at the
// highest revision, so no read goes back in time.
//
// While that is below the minimum revision, reads ask the server, by one list for all that read, because a list has a revision also
// if there is no object. The answer is known then, of the key or as a list of a prefix, which is read in place of the
// state until the state is as new. Unless a response tells the minimum revision, it is that of the first answer to a
// question that was asked after the write. What nobody reads is asked about later. A prefix may have a statement as a key has.
//
// # Contract
//
// A read that begins after Note has returned shows what was noted, or something newer. It loads the set first and the
// state afterwards: what it does not find was removed because the state has reached it. The watch does not call this
// package: a timer of 250 ms (sweep.go) removes what the state has reached. Only a list and a restore are told, by Listed and Reset.
//
// A read that has to ask asks about a few keys one by one, or else about all that is read. It sees what was known when it looked, and
// the answers to questions that were asked after that, however much is written meanwhile: so it may wait for a question that is under
// way, and then for one of its own. It looks again only if the watch was faster, or the source was restored.
//
// A state has reached a pending write when it is at its revision, and does not hold an older version of the object, as
// when the cache cannot hold the newer one, nor the object that was deleted. Until a
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
// The bytes are bounded by a [Budget]. What has no room is ambiguous, and a list without room belongs to the
// reads that see it. A write ends by its deadline if the watch does not reach it.
//
// # Concurrency
//
// All methods are safe for concurrent use. A read with nothing pending takes no lock. Writers hold the lock of Writes,
// which comes before the engine's lock. Goroutines ask the server or make objects, and end with that, at the latest soon
// after Close. A timer runs while anything is pending.
//
// # Files
//
//   - entry.go: what is noted, and the keys that reads and questions are about
//   - set.go: what is known and what is ambiguous, and how two statements about a key become one
//   - writes.go, budget.go, sweep.go: how writes are noted, bounded, removed, and shown to people
//   - view.go, read.go, ask.go: what reads see, and what they ask the server
package pending
