// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package form defines the bytes of an object: the numbers on which encoder and decoder agree.
//
//   - An object has a header, and then its values. The header begins with two bytes: the kind of
//     content, and a fingerprint of the type. The sizes that let a decoder allocate at once follow:
//     the memory for pointer-free values, the number of string headers, and the number of structs of
//     each type. The header of a large object also has a table of its sections.
//   - The ObjectMeta comes first. Its first fields are namespace, name, resourceVersion, uid, labels
//     and annotations. The other fields of the object follow it. Unstructured content begins with the
//     same six fields; its metadata follows, and then the rest.
//   - A struct is a bitmap of its non-zero fields, and then their values in order. A small struct
//     inside it uses its bitmap.
//   - A number is a varint.
//   - A string is inline, or the number of a dictionary entry, or a reference to the same string
//     earlier in the object. A reference never leaves its section. A section is a large struct among
//     the fields; an update may copy it from the state before.
//   - A map has its keys in order, so that equal maps have equal bytes.
//   - A slice, map or larger struct that recurs as a whole is the number of a dictionary entry.
//   - A byte slice that holds FieldsV1 is cut at the keys of list items. So the pieces that most
//     objects have in common are numbers, although each object has, say, an address of its own in
//     between.
//   - An object that would have more than 4 KiB has parts. Its strings of three bytes or more stand
//     inline in the parts, and the object has references to them.
//
// The form is for the memory of one process: it depends on the build and on random seeds.
//
// Files: form.go has the header and the limits of an object, strings.go strings, byte slices and the
// parts of a large object, content.go the values of unstructured content, and special.go times and
// quantities.
package form
