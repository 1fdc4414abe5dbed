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
// # Ownership
//
// Encode keeps no reference to its argument. Decode gives the caller memory of its own: the caller
// may change the result, and neither the Object nor another caller sees it. Only strings are
// shared, because they are immutable: each refers to a block of memory of the Object or of its
// dictionary, and whoever keeps the string keeps that block. A block has at most 4 KiB, or holds a
// single string that is longer than 1 KiB. Within one decoded object, small values behind pointers,
// small byte slices, and string slices share allocations with others of their kind, and an
// allocation lives as long as one of its values is referred to. In a large object only few values
// share one: byte slices share chunks of 8 KiB, and string headers are allocated by 16.
//
// DecodeReusing is for a caller that changes nothing. Its result shares the memory of a similar
// object wherever the two objects are equal.
//
// # Unsafe assumptions
//
// The codec reads and writes Go values through unsafe.Pointer. Of that, package unsafe documents:
// fields stand at the offsets that reflection gives, elements of slices and arrays one size apart,
// a type has the memory of its underlying type, and a pointer into an allocation keeps all of the
// allocation. No address is ever kept as a number, and each pointer is stored as a pointer, so that
// nothing is assumed of how the garbage collector works or whether it moves memory. One function
// is linked by name, reflect.unsafe_NewArray, which allocates values of a type that is not known to
// the compiler. The Go runtime keeps it, and its signature, for packages that do so; a release
// without it would refuse to link, and not run otherwise.
//
// The rest is assumed, and is what [Go's compiler] does. For compares it with the running program
// before it makes a codec, see layout.go. What does not hold refuses the type, whose objects then
// stay decoded for the reason that the error names. The first group holds for a program or not
// at all (broken), and refuses all types:
//
//   - A slice is a data pointer, a length and a capacity, whatever its elements are. A slice of no
//     elements whose data pointer is not nil is empty and not nil. (knowsSlices)
//   - The length of a string is its second word. (knowsStrings)
//   - An empty interface is a type word and a data word. A pointer is the data word itself; of a
//     string, an int64, a float64 or a json.Number, the data word is the address. Interfaces with
//     equal type words hold values of one type. (knowsInterfaces)
//   - A pointer, slice, map, empty interface or unique.Handle is nil, or the zero Handle, exactly
//     if its first word is. False is the byte 0, and true the byte 1. (knowsNil)
//   - The namespace, the name, the resourceVersion, the uid, the labels and the annotations are
//     fields of ObjectMeta, four strings and two maps of strings. (knowsMetadata)
//
// The second group refuses the types that hold such a value (mismatch, mirrored):
//
//   - Numbers have the size of their kind; pointers, maps and handles take a word.
//   - A type that is taken for free of pointers is free of them, and is not aligned to more than
//     a uint64: its values are carved from a chunk of these.
//   - The data word of a reflect.Type is the type word of interfaces that hold a value of that
//     type. (names)
//   - A map whose key and element types are string types, resource.Quantity or any is in memory
//     what it would be if these types had no names of their own. (viewsMap, viewsPairs)
//   - time.Time, resource.Quantity, runtime.RawExtension and unstructured.Unstructured have the
//     known fields, at the known offsets, and no others. (mirrored)
//   - The large number of a Quantity is what AsDec returns, and stays so. (knowsDecimal)
//
// All other types, metav1.Time, intstr.IntOrString and metav1.FieldsV1 among them, are made of
// these, and of fields that reflection finds.
//
// # Form
//
// An Object starts with two bytes (the kind of its content, and a fingerprint of its type) and with
// the sizes that let a decoder allocate at once: how much memory for pointer-free values, how many
// string headers, how many structs of which type. Then comes the ObjectMeta, whose first fields are
// namespace, name, resourceVersion, uid, labels and annotations. Then come the other fields. A
// struct is a bitmap of its non-zero fields, followed by their values in order; small structs
// inside it use its bitmap. Numbers are varints. A string is inline, or the number of a dictionary
// entry, or a reference to the same string earlier in the object, and in the same section: a large
// struct among the fields, which an update may copy from the state before (section.go). A map has its keys in order. A
// slice, map or larger struct that recurs as a whole is one number: that of the dictionary entry
// that holds it. An Object that would have more than 4 KiB is split into parts: its strings of
// three bytes or more stand inline in the parts, and the object itself has a reference in place of
// each. Byte slices that hold FieldsV1 are cut at the keys of list items, so that the pieces that
// most objects have in common are numbers, although each object has, say, an address of its own in
// between. Unstructured content starts with the same six fields; then comes its metadata, then the
// rest.
//
// The form is for the memory of one process: it depends on the build and on random seeds.
//
// Bytes that no encoder wrote lead to an error, never to a panic.
//
// [Go's compiler]: https://go.dev/src/cmd/compile/abi-internal#memory-layout
package flat
