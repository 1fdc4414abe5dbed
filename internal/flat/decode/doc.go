// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decode reads the flat form of objects.
//
// An Object is immutable, and any number of goroutines may read it. Its methods read single metadata
// from the bytes. Decode writes all of it into memory of the caller, and Reusing does so beside a
// similar object, whose memory it shares where the two are equal. Sections reads what an update may
// copy from the state before.
//
// Bytes that no encoder wrote lead to ErrCorrupt, never to a panic, and take a bounded memory.
//
// A reader reads numbers and strings. A decoder is a reader with the memory for Go values, and reads
// values by their plans. Each file uses only files above it in this list:
//
//   - object.go: the Object, its size and identity
//   - reader.go: the header, numbers, and entries of the dictionary
//   - strings.go, special.go, maps.go: strings, times, quantities, and their maps
//   - metadata.go: names, labels and annotations, without decoding
//   - section.go: the table of sections
//   - memory.go: allocates small values together
//   - decoder.go: the decoder, and byte slices
//   - content.go: values of unstructured content
//   - decode.go: values by their plans
//   - compare.go, skip.go: compare and skip values without decoding them
//   - reuse_content.go, reuse.go: decode beside a similar object
package decode
