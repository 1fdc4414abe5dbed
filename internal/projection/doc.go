// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package projection says what is kept of objects: all, some fields, or nothing.
//
// A path is a name in JSON for each level, with dots between: spec.nodeName. A dot in a key of a map has a backslash before
// it. A path goes through lists, and through the values of a map by their keys. What is on the way to a field stays without the
// rest: a present parent is present, and a list has as many elements. A scalar where a path goes on is cut.
//
// The kind and the metadata are always kept, apart from metadata.annotations and metadata.managedFields, which are fields as
// others are.
//
// # Mark
//
// A cut object says so in metadata.selfLink, as a relative URL: ?fields=spec.nodeName,status.phase. API servers have not set
// that field since v1.20, and never store it. Copies of the object, metadata alone, and objects in any Go type have it; nobody passes it on to
// other objects, as operators do with annotations; and a program that replaces the annotations does not lose it.
//
// # Files
//
//   - projection.go has New and the mark, and fields.go checks paths against Go types.
//   - cut.go cuts objects of Go types and unstructured content, and message.go protobuf messages.
//   - rule.go says which objects of a kind are kept whole, cut, or not at all.
package projection
