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
// # Unsafe assumptions
//
// The codec reads and writes Go values through unsafe.Pointer. Of that, package unsafe documents:
// fields stand at the offsets that reflection gives, elements of slices and arrays one size apart,
// a type has the memory of its underlying type, and a pointer into an allocation keeps all of the
// allocation. No address is ever kept as a number, and each pointer is stored as a pointer, so that
// nothing is assumed of how the garbage collector works or whether it moves memory. Nothing is
// linked by name.
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
// The second group refuses the types that hold such a value (misfit, mirrored):
//
//   - Numbers have the size of their kind; pointers, maps and handles take a word.
//   - A type that is taken for free of pointers is free of them, and is not aligned to more than
//     a uint64: its values are carved from a chunk of these.
//   - A pointer to a slice has the type word that it had when the codec was made. (namesPointer)
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
//
// [Go's compiler]: https://go.dev/src/cmd/compile/abi-internal#memory-layout
package flat
