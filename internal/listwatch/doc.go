// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listwatch lists and watches the objects of a kind for an informer.
//
// A [Source] lists and watches one resource in one of three representations: as Go types,
// unstructured, or as metadata. [New] makes a source the ListerWatcher that client-go's Reflector
// needs. [Failures] remembers what fails now, so that the error of a wait that times out contains
// the reason.
//
// # Contract
//
// The events of a watch keep their order, see package ordered. One goroutine reads the stream and cuts it into objects.
// It decodes an object and calls [Options].Each itself if the event comes alone. When events are
// queued, workers on all cores do it, so Each must be safe for concurrent use. There are at most as
// many workers in a process as cores, and none while no events are queued. All objects of a watch
// have the Go type and the kind of the source. An object of another type or kind is replaced by a
// Status, which the Reflector logs and skips.
//
// A list or an event that cannot be decoded leads to an error with the reason, never to a panic.
// Stopping a watch ends its goroutines and waits for them.
//
// # Files
//
//   - listwatch.go has New and the check of kinds, source.go the interface, selector.go
//     the selectors.
//   - structured.go, unstructured.go and metadata.go are the three representations;
//     undecoded.go has the objects that a structured watch cuts and does not decode yet, and
//     projected.go keeps some fields of them only.
//   - stream.go reads the stream of a watch, and frames.go each of its events.
//     watch_serializer.go decodes events and leaves their objects undecoded, with watch_json.go for JSON.
//   - wide.go is one watch for many namespaces, wide_list.go its list, wide_cover.go what the server selects for it, and member.go the source of one of the
//     namespaces. wides.go has these watches by kind. join.go brings what such a source has from them to a store, without a Reflector.
//   - idle_timeout.go ends a watch that brings nothing. failures.go remembers what failed, and
//     counters.go counts lists and watches by the reason for which they were begun or ended.
package listwatch
