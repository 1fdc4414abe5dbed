// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Storage says how the objects of a kind are kept, and with how many watches.
type Storage string

const (
	// Flat keeps objects as bytes that are cheap to copy out. Objects that have no flat form without loss are
	// kept decoded, and so are those of a kind with UnsafeDisableDeepCopy. The structured and the unstructured
	// representation have a watch and a copy each. A read of metadata returns the metadata of objects that are
	// cached already, as a transform has left them, and opens no watch; unless some do not fit the Go type of
	// the kind.
	Flat Storage = "Flat"
	// Decoded is Flat, but objects are kept as Go values, as client-go keeps them. They take up to twenty times
	// the memory, so this is for kinds with few objects that are read very often.
	Decoded Storage = "Decoded"
	// SeparateMetadata is Flat, but reads of metadata have a watch and a copy of their own.
	SeparateMetadata Storage = "SeparateMetadata"
	// OneWatch has one watch and one copy for all representations of the kind. The copy is unstructured, so that
	// no representation lacks what another one shows: reads and handlers of the Go type get what the JSON decoder
	// makes of it, which takes several times the CPU time. A transform of the kind gets *unstructured.Unstructured
	// alone. An object that does not fit the Go type is an error for reads of the type alone, and for lists of
	// the type by a declared field; handlers of the type hear of it when it fits again, or is gone. It cannot be
	// set with controller-runtime's Options.NewInformer, and neither can Flat and Decoded: the informers of the
	// user's decide how they keep objects.
	OneWatch Storage = "OneWatch"
)

// Valid reports whether s is one of the values, or open.
func (s Storage) Valid() bool {
	switch s {
	case "", Flat, Decoded, SeparateMetadata, OneWatch:
		return true
	}
	return false
}

// sharesWatch reports whether the representations of a kind share one watch.
func (s *Shared) sharesWatch(gvk schema.GroupVersionKind) bool {
	return s.NewInformer == nil && s.tuning(gvk).Storage == OneWatch
}
