// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index holds the fields by which the objects of an informer can be selected.
//
// [Fields] is the registry of one informer: it knows which fields are declared, and the
// extraction function of each. A cache declares a field with IndexField.
//
// # Contract
//
//   - Values are compared as strings. An object may have any number of values of a field; a
//     requirement is met if one of them is equal.
//   - The extraction functions of a field are called for one object at a time, and must not
//     change it. If a function panics, the object has no values of the field;
//     utilruntime.HandleCrash decides whether the process goes on.
//   - Fields are safe for concurrent use.
//   - An informer of this project keeps the values in posting lists. The keys in an index of client-go
//     follow controller-runtime's convention: a value of a namespaced object stands twice, under
//     the namespace and for queries across all namespaces.
package index
