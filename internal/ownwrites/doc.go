// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownwrites keeps what a program has written and its watch has not shown yet.
//
// An [Overlay] lies over the state of one engine. It holds an [Entry] for each key that was
// written: the object of the response, or what else is known of it. A read takes the entries
// first and the state afterwards, and lets each entry count that the state has not passed.
//
// # Contract
//
// A read that begins after Note has returned shows what was noted, or something newer. This
// holds because of the order: an entry is removed only when the newest state has passed it, so a
// read that does not find the entry takes a state that has.
//
// A state has passed an entry when it is complete up to the revision of the write, and does not
// hold an older version of the object. Where that revision is not known, as that of a deletion, the
// state has passed it when the object with that UID was there and is not there any more, or when
// the state is as far as the server was after the deletion.
//
// Revisions are compared within one history of the source. When the source was restored from a
// backup, Reset makes all entries such of unknown content, and what is noted from then on has not
// been passed by a state of before. Until Reset is called, a state that should have the object of an
// entry and does not have it makes the entry one of unknown content.
//
// An entry of which the content is not known makes reads of its key wait: for the watch first,
// and if that is late, for one question to the server, whose answer becomes the entry. If there are
// many such entries, the server is asked for a list. If it does not answer, the read fails, and the next
// question has to wait for a pause. A read that waits takes the answer to a question of after its begin, also if
// something newer is noted or comes in doubt meanwhile, and shows of other keys what was known when it began or when it
// got its answer: so writers do not keep it waiting.
//
// Answers come in any order. One says nothing of what was noted after its question. Of the answers to two questions
// between which nothing was noted, the one of the newer revision counts. If a read may have shown an answer in the
// place of a later write whose content is not known, neither the watch nor an older answer ends that entry
// before the revision of the shown answer.
//
// If any objects with a prefix may have been written, there is one doubt, see Doubt, and no entry for
// each: it concerns objects that the state has not got yet, too. An entry that was noted before the doubt
// says nothing any more. One that was noted after it, or is an answer to a question of after it, does. What a
// list that has answered a doubt does not have is not shown before the state is as far as that list, unless
// something newer tells of it: so the doubt stays as long.
//
// What was written before there was an overlay, or is forgotten, makes reads of all keys wait, until
// the state has reached a revision: see Listed and [Budget].
//
// # Memory
//
// An entry ends by its deadline if the watch does not pass it. The bytes of all entries are bounded
// by a [Budget]. If there is no room, the oldest objects become entries of unknown content, which
// are as small as their keys. If there is no room for the keys of so many entries, they all are
// forgotten, and reads wait for the revision at which the server is then. No entry is forgotten
// otherwise. Where the state keeps the object of before a change that the cache cannot hold, only the
// watch ends the entry, also if a write of unknown content follows: it has no deadline, and is forgotten last. If nothing else is left, a sweep
// comes after a deadline, and not ten times a second.
//
// # Concurrency
//
// All methods are safe for concurrent use. A read of an empty overlay loads one pointer and
// nothing else. Writers hold the lock of the overlay, which comes before that of the engine.
// There are no goroutines but those that ask the server, which end with their request and at the
// latest after Close, and the timer that removes entries, which runs only while there are any.
//
// # Files
//
//   - write.go: what a client tells a cache
//   - entry.go: what is known of one object, and when a state has passed it
//   - overlay.go, budget.go, floor.go, doubt.go, listing.go: what there is of one kind
//   - set.go, read.go, ask.go, patience.go: what reads see, for what they wait, and what they ask the server
//   - sweep.go: how entries end
package ownwrites
