// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect shows a cache: as JSON, and on a page. [New] returns an http.Handler, which the
// program mounts where it likes, behind its own authentication and authorization; the package opens no
// port. The page docs/inspect.md shows how, and has the answers.
//
// # Contract
//
// The handler only reads. It starts no informer, asks the API server nothing, leaves nothing behind, and
// answers from what the cache holds: a kind without an informer is not found. Whoever may use it sees the objects of the
// cache, with whatever rights the program has, but for the values of Secrets, see
// [Options.ShowSecrets].
//
// Answers are bounded: a list shows the metadata of at most 500 objects, and goes on with the token
// of its page, from the state of the moment; an object takes at most 1 MiB.
//
// Nobody pays for the handler unless somebody looks. To show the recent events of a kind the handler
// follows its informers, which needs no object: it begins with the first poll and ends a minute after
// the last one. It follows 16 kinds at most, of each at most 32 namespaces, and keeps at most 64 KiB
// of events for each.
//
// # Concurrency
//
// The handler is safe for concurrent use. Events are followed in goroutines of the cache: they end
// with it, and Start of the cache waits for them.
//
// # Files
//
//   - handler.go: New, the paths, what all answers have in common
//   - overview.go, figures.go, program.go: whose cache it is, the informers and their figures, by kind
//   - leases.go: which informers serve which leases, and what has woken requests
//   - objects.go, redact.go: lists, one object, and what is not shown of Secrets
//   - events.go, taps.go, ring.go: the recent events of a kind
//   - assets: the page
package inspect
