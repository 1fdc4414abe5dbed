// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flat keeps Kubernetes objects in the form that is cheapest to copy out.
//
// A cache hands out a deep copy on every read, so the decoded struct is not the best thing to
// keep: it is large, full of pointers that the garbage collector must follow, and copying it
// means to walk it. This package keeps an object as one immutable string of bytes without
// pointers and writes it straight into the memory of the caller's object.
//
//	codec, err := flat.For(reflect.TypeFor[corev1.Pod]())
//	dict := flat.NewDictionary(flat.Limits{})
//	object, err := codec.Encode(pod, dict)
//	err = codec.Decode(object, &copy)
//
// # Lossless or refused
//
// What is decoded equals what was encoded, in the sense of reflect.DeepEqual, with nothing taken
// out: nil and empty slices, maps and pointers stay apart; quantities keep their format and their
// cached string; times keep their location, their nanoseconds and a monotonic reading; floats
// keep their bits. As with a deep copy, pointers that were equal are not any more, and spare
// capacity of slices is not kept. A location that is neither local nor a fixed zone stays the
// same *time.Location, which the dictionary holds.
//
// For refuses types about which this cannot be known: those with unexported fields, interfaces,
// channels, functions. Encode refuses single objects: those with a decoded object in a
// RawExtension, with content that is not JSON-like in a field of type any, with themselves
// inside, nested a thousand levels deep, beyond 256 MiB, or with more foreign time zones than a
// dictionary holds. Such objects stay decoded.
//
// # Ownership
//
// Encode keeps nothing of its argument. Decode gives the caller memory of its own: whatever is
// done to it reaches neither the Object nor another caller. Strings alone are shared, being
// immutable: each stands in a block of memory of the Object or of its dictionary, and whoever
// keeps it keeps that block. A block has at most 4 KiB, or a single string that is longer than
// 1 KiB. Small pointees, small byte slices, and string slices of one decoded object share
// allocations with others of their kind in it, and live as long as one of them is referred to. In
// large objects few of them do so: byte slices in chunks of 8 KiB, headers of strings by 16.
//
// DecodeReusing is for who changes nothing: it shares the memory of a similar object wherever the
// two are the same.
//
// # Form
//
// An Object starts with two bytes (what it is; a fingerprint of its type) and with what a reader
// will need, so that it can allocate it at once: how much memory for pointer-free values, how
// many string headers, how many structs of which type. Then comes the ObjectMeta, whose first
// fields are namespace, name, resourceVersion, uid, labels and annotations, then the other fields. A struct is a bitmap of
// its non-zero fields and their values in order; small structs inside it join its bitmap.
// Numbers are varints. A string is inline, or a number of a dictionary entry, or a reference to
// the same string earlier in the object. A map has its keys in order. Slices, maps and larger
// structs that recur as a whole are one number: that of the dictionary entry that holds them.
// An Object that would have more than 4 KiB has parts: its strings of three bytes or more stand
// inline in these, not in the object, where a reference stands for each.
// Byte slices that hold FieldsV1 are cut at the keys of list items, so that what is common to
// most objects is a number although each mentions, say, an address of its own.
// Unstructured content has a head with the same six fields, then its metadata, then the rest.
//
// The form is for the memory of one process: it depends on the build and on random seeds.
//
// Bytes that no encoder wrote give an error, never a panic.
package flat
