// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dispatch serves the watches of a Cacher from the history of its engine.
//
// A [Dispatcher] has a goroutine that walks the history and puts each event into the channels of
// the watchers that it may concern, found by the watcher index. It never waits for a reader. A
// watcher is in one of three states:
//
//   - following: the dispatcher sends to it. It has no goroutine.
//   - catching up: it is behind the dispatcher but within the history. A goroutine of its own sends
//     what it began with, and reads the history for it until it has caught up. Every watcher
//     begins so, and catches up again when its channel was full.
//   - ended: by its context, by Stop, by the Cacher, or because it has expired: the history has
//     passed the event that it needs next, and its client is told 410.
//
// # Contract
//
// The events of one watch come in the order of their revisions, none twice and none missing. A
// bookmark says that every event up to its revision was sent. The objects in events are shared by
// all watchers and can be changed by their setters alone.
//
// The package knows no Cacher: a [Config] has what a dispatcher needs, a [Watch] says what is
// asked for. Watches are started by any goroutine. [Dispatcher.Run] and [Dispatcher.RunRounds]
// are called once each, by goroutines that the caller ends by their context; Stop waits for the
// goroutines of watchers.
//
// The lock of the dispatcher is held while one event is dispatched. It comes before the lock of
// the blocked watchers, and before those of the engine and of whatever Config.Admit takes.
//
// # Files
//
//   - dispatcher.go: the goroutine that passes events on
//   - rounds.go: what is done once a second: bookmarks, and readers that do not read
//   - watcher.go: how a watch begins, ends, and is given events while it follows
//   - catching_up.go: a watcher that catches up; slow_watchers.go: those that wait for their
//     readers
//   - watcher_index.go: which watchers an event may concern
//   - bookmark_schedule.go: when a watcher gets its next bookmark
//   - watch_event.go: what a watcher sees of an event; caching_object.go: an object for many
//   - engine.go: the types of the engine; errors.go: watches that end at once
package dispatch
