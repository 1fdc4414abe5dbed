// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package element is what a Cacher keeps of an object, and how it finds out whether a list or
// a watch wants it.
//
// An [Element] is the object, flat or decoded, with the labels and fields by which it can be
// selected. A [Form] makes elements of objects and objects of elements; a Cacher has one. A
// [Filter] compares elements with the selectors of one request, without decoding them if it
// can.
//
// # Contract
//
// Elements never change and can be read by any number of goroutines. A Form and a Filter are safe
// for concurrent use. [Form.Object] may return the kept object itself, which must not be changed;
// [Form.Copy] returns an object of the caller's own.
//
// # Files
//
//   - element.go: what is kept, and its values for indexes
//   - field_values.go: the selectable fields of an object
//   - form.go: from objects to elements and back
//   - filter.go: which elements a request wants
//
// The package is apart from pkg/cacher because reads, which are there, and watches, which are in
// pkg/cacher/internal/dispatch, both need it, and pkg/cacher imports dispatch.
package element
