// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package object holds what a cache keeps of a Kubernetes object.
//
// A [Form] says how the objects of one store are kept. Flat objects are bytes, see package flat.
// Decoded objects are the Go objects that the decoder made. Objects whose type has no flat form are
// decoded, and so are the objects of a kind for which the user has disabled deep copies. In both
// forms the metadata of an object is what meta.Accessor returns. So an object is kept decoded if
// its methods return other metadata than the ObjectMeta that it embeds by value.
//
// An [Object] is immutable. A copy that is made of it belongs to the caller.
package object
