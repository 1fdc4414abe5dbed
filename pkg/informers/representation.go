// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/object"
)

// Representation is the form in which the objects of a kind are cached.
type Representation int

const (
	// Structured objects are the Go types of the scheme.
	Structured Representation = iota
	// Unstructured objects are *unstructured.Unstructured.
	Unstructured
	// Metadata objects are *metav1.PartialObjectMetadata.
	Metadata
)

// representationOf returns the representation of an object or a list.
func representationOf(obj runtime.Object) Representation {
	switch obj.(type) {
	case runtime.Unstructured:
		return Unstructured
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return Metadata
	default:
		return Structured
	}
}

// String returns the name used in messages and metrics.
func (r Representation) String() string {
	switch r {
	case Structured:
		return "structured"
	case Unstructured:
		return "unstructured"
	case Metadata:
		return "metadata"
	}
	return "unknown"
}

// Key identifies an informer within a [Map].
type Key struct {
	schema.GroupVersionKind
	Representation Representation
}

// KeyOf returns the key of obj, whose kind is gvk.
func KeyOf(gvk schema.GroupVersionKind, obj runtime.Object) Key {
	return Key{GroupVersionKind: gvk, Representation: representationOf(obj)}
}

// String names the kind and, unless it is Structured, the representation.
func (k Key) String() string {
	name := object.Describe(k.GroupVersionKind)
	if k.Representation != Structured {
		name += " as " + k.Representation.String()
	}
	return name
}
