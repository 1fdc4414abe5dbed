// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package object is what a cache keeps of a Kubernetes object.
//
// A [Form] says how the objects of one store are kept: flat, see package flat, or
// decoded, as the Go objects that the decoder made. Objects of a type that cannot
// be kept flat without loss are decoded, and so are those of a kind for which the
// user has disabled deep copies. In both forms the metadata are those that
// meta.Accessor finds: an object that says something else of them than the ObjectMeta
// that it embeds by value is kept decoded.
//
// An [Object] is immutable, and what is copied out of it belongs to the caller.
package object
