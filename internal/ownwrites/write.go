// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Write is what a client knows of an object after a request that writes.
type Write struct {
	Kind schema.GroupVersionKind
	// Key without a Name, with the outcome Unknown, stands for all objects of a namespace, or of all
	// namespaces.
	Key client.ObjectKey
	// Outcome, Revision and UID are as those of an [Entry]. Shown stands for an object that is there
	// now, whether the cache is to hold it or not.
	Outcome  Outcome
	Revision uint64
	UID      types.UID
	// Collection is that of an [Entry].
	Collection bool
	// Metadata is that of the response, which must not be changed; nil if the response has no metadata of
	// the object, or not all of it.
	Metadata *metav1.PartialObjectMetadata
	// Object returns the object of the response, in the Go type of example, as a watch would bring
	// it. It is an object of its own. The error says that the response does not hold as much. It is
	// nil unless the outcome is Shown.
	Object func(example runtime.Object) (client.Object, error)
}

// Noter is a cache that shows what is noted. A client finds it by this interface.
type Noter interface {
	// NoteWrite notes a write. Reads that begin when it has returned show it.
	NoteWrite(Write)
}
