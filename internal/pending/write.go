// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"errors"

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
}

// Noter is a cache that shows what is noted. A client finds it by this interface.
type Noter interface {
	// NoteWrite notes a write. Reads that begin when it has returned show it. It calls no function of a user.
	NoteWrite(Write)
}

// Entry is a Write as one informer notes it.
type Entry[V any] struct {
	Key      string
	Outcome  Outcome
	Revision uint64
	UID      types.UID // of the object that was written; empty if it is not known
	// Make makes the object of an entry that is Shown. Reads call it, in a goroutine of their own, until it succeeds
	// once. ErrNotWhole makes the entry ambiguous; with any other error the read fails.
	Make  func() (Made[V], error)
	Bytes int // that Make holds
}

// Made is what a cache makes of an object that was written.
type Made[V any] struct {
	Value V
	Held  bool  // the object is in the scope of the cache
	Lost  error // why the cache cannot hold the object, nil if it can
}

// ErrNotWhole is what Make returns if the response does not have the object, or its place in the scope is not known.
var ErrNotWhole = errors.New("the response does not have the whole object")

// Target is one key, or all keys that begin with it.
type Target struct {
	Key string
	All bool
}

// Has reports whether a key is one of t.
func (t Target) Has(key string) bool { return t.covers(Target{Key: key}) }

// covers reports whether all keys of other are keys of t.
func (t Target) covers(other Target) bool {
	if !t.All {
		return t == other
	}
	return len(other.Key) >= len(t.Key) && other.Key[:len(t.Key)] == t.Key
}

// meets reports whether t and other have a key in common.
func (t Target) meets(other Target) bool { return t.covers(other) || other.covers(t) }
