// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan says how values of Go types are written and read.
//
// For compiles the Root of a type: where its ObjectMeta stands, and the plans of its other fields. A
// plan has the kind of a value, its size, and the plans of what it consists of. The encoder and the
// decoder walk the same plans, so both agree on the order of fields. What For returns never changes,
// and any number of goroutines may use it.
//
// For refuses, with an *UnsupportedError, a type whose objects might not be kept without loss, or
// whose memory is not as expected below.
//
//   - plan.go: the kinds, plans, groups and fields
//   - root.go: For, and what belongs to the type of an object
//   - metadata.go: the plan of ObjectMeta, and where it is embedded
//   - compile.go: makes plans of Go types
//   - memory.go: the memory of slices, interfaces, times and quantities
//   - layout.go: compares that with the running program
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
// before it makes a Root, see layout.go. What does not hold refuses the type, whose objects then
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
// [Go's compiler]: https://go.dev/src/cmd/compile/abi-internal#memory-layout
package plan
