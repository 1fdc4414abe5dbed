// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listwatch lists and watches the objects of a kind for an informer.
//
// A [Source] lists and watches one resource in one of three representations: as Go types,
// unstructured, or as metadata alone. [New] makes a source the ListerWatcher that client-go's
// Reflector needs. [Failures] looks at all that goes wrong meanwhile, so that a wait that
// times out can name the reason.
//
// # Contract
//
// The events of a watch keep their order. One goroutine receives them and cuts the stream
// into objects; workers on all cores decode these and call [Options].Each, so that this must
// be safe for concurrent use. A watch has only objects of the source's Go type, and of its
// kind: others are replaced by a Status, which the Reflector logs and passes over.
//
// A list or an event that cannot be decoded is an error with the reason, never a panic.
// Stopping a watch ends its goroutines and waits for them.
//
// # Files
//
//   - listwatch.go has New and the check of kinds, source.go the interface, selector.go
//     the selectors.
//   - structured.go, unstructured.go and metadata.go are the three representations;
//     undecoded.go has the objects that a structured watch cuts and does not decode yet.
//   - ordered_watch.go decodes on all cores, in order.
//   - failures.go remembers what failed.
package listwatch
