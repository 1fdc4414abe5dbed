// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package encode writes the flat form of objects.
//
// An Encoder writes it from Go values, and a MessageEncoder from the protobuf messages of an API server,
// without making the Go value. Both write the same form. For the update of an object, a MessageEncoder
// copies the large sections that have not changed from the state before. Neither keeps a reference to
// what it was given. An encoder is for one goroutine at a time, and is used again with its buffers.
//
// The errors are a *ValueError for an object that cannot be kept without loss, and ErrUnusualMessage for
// a message that Unmarshal has to read.
//
// A writer writes numbers and strings. An Encoder is a writer that writes values by their plans. Each file
// uses only files above it in this list:
//
//   - needs.go: counts the memory that a decoder will need
//   - inlined.go: finds strings that recur in an object
//   - parts.go: splits a large object
//   - pairs.go: sorts the pairs of maps
//   - writer.go: numbers, nesting, and entries of the dictionary
//   - strings.go, special.go, maps.go: strings, times, quantities, and their maps
//   - content.go: values of unstructured content
//   - encode.go: values by their plans, and the header
//   - message_scan.go: finds the fields of a message
//   - message_maps.go: maps of a message
//   - section.go: the table of sections
//   - known.go: the table of values that are in the dictionary
//   - message.go: values of a message, by their plans
package encode
