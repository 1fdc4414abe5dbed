// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package note is how a client tells a cache of its writes: what is known of an object after a request, and the interfaces of those that
// are told, which are caches and reconciles. Package pending keeps what a cache is told. A fence keeps a client from writing.
package note

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Outcome says what is known of an object after a write.
type Outcome int

const (
	// Shown says that the response has the object as it is at Revision.
	Shown Outcome = iota
	// Hidden says that the cache has no object under the key at Revision: there is none, or it is outside the scope.
	Hidden
	// Gone says that the object with UID, which was there at Revision, was deleted for good after that.
	Gone
	// Ambiguous says that a write may have happened, and not what came of it. If Revision is not zero, it had happened
	// by then.
	Ambiguous
)

// String returns the word that logs use.
func (o Outcome) String() string { return [...]string{"shown", "hidden", "gone", "ambiguous"}[o] }

// Write is what a client knows of an object after a request that writes.
type Write struct {
	Kind schema.GroupVersionKind
	// Key without a Name, with the outcome Ambiguous, stands for all objects of a namespace, or of all namespaces.
	Key      client.ObjectKey
	Outcome  Outcome
	Revision uint64 // 0 if it is not known
	UID      types.UID
	// Metadata is the metadata of the response, which must not be changed; nil if the response has no metadata of the object.
	Metadata *metav1.PartialObjectMetadata
	// Object returns the object of the response, in the Go type of example, as a watch would bring it. It is an object
	// of its own. The error says that the response does not hold as much. It is nil unless the outcome is Shown.
	Object func(example runtime.Object) (client.Object, error)
	// Bytes is about the memory that Object holds.
	Bytes int
	// Replaced is the resource version that the object had before, as the server has checked because the request demands it; Nothing
	// if the request has created the object. It is empty if that is not known, and for all but a Follower.
	Replaced string
}

// Noter is a cache that shows what is noted. A client finds it by this interface.
type Noter interface {
	// NoteWrite notes a write. Reads that begin when it has returned show it. It calls no function of a user.
	NoteWrite(Write)
}
