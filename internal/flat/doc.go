// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flat keeps Kubernetes objects in a form that is cheap to copy out.
//
// A cache hands out a deep copy on every read, so the decoded struct is not the best form to keep:
// it is large, it is full of pointers that the garbage collector must follow, and a copy must walk
// all of it. This package keeps an object as one immutable string of bytes without pointers, and
// writes it straight into the memory of the caller's object.
//
//	codec, err := flat.For(reflect.TypeFor[corev1.Pod]())
//	dict := dictionary.New(dictionary.Limits{})
//	object, err := codec.Encode(pod, dict)
//	err = codec.Decode(object, &copy)
//
// # Lossless or refused
//
// The decoded object equals the encoded one in the sense of reflect.DeepEqual, without exceptions:
// nil and empty slices, maps and pointers stay apart; quantities keep their format and their cached
// string; times keep their location, their nanoseconds and a monotonic reading; floats keep their
// bits. As with a deep copy, two equal pointers become pointers to two copies, and spare capacity
// of slices is not kept. A location that is neither local nor a fixed zone stays the same
// *time.Location, which the dictionary holds.
//
// For refuses types whose objects might not be kept without loss: types with unexported fields,
// interfaces, channels or functions. Encode refuses single objects: an object with a decoded object
// in a RawExtension, with content that is not JSON-like in a field of type any, with a thousand
// levels, with more than 256 MiB, with more foreign time zones than a dictionary holds, and an
// object that contains itself. Such objects stay decoded.
//
// Bytes that no encoder wrote lead to an error, never to a panic.
//
// # Ownership
//
// Encode keeps no reference to its argument. Decode gives the caller memory of its own: the caller
// may change the result, and neither the Object nor another caller sees it. Only strings are
// shared, because they are immutable: each refers to a block of memory of the Object or of its
// dictionary, and a reader that keeps the string keeps that block. A block has at most 4 KiB, or holds a
// single string that is longer than 1 KiB. Within one decoded object, values behind pointers and in
// slices share allocations, and an allocation lives as long as one of its values is referred to. At
// most 16 values of a type share one, and values of several types at most 4 KiB; byte slices share
// chunks of 8 KiB, and string headers of a large object are allocated by 16.
//
// DecodeReusing is for a caller that changes nothing. Its result shares the memory of a similar
// object wherever the two objects are equal.
//
// # Rooms
//
//   - plan compiles the plans of Go types, and checks that Go's memory is as they assume.
//   - form defines the bytes.
//   - decode reads them, and encode writes them, from Go values and from protobuf messages.
//   - wire says how Go types stand in protobuf messages, and finds the fields of one.
//   - dictionary holds the strings that recur among objects.
//
// This package joins them: codec.go is what a cache calls, check.go compares the plan of a message with
// Unmarshal before it is used, verify.go compares what is decoded with what was encoded, and object.go
// names what the rooms define.
package flat
