// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/note"
)

// Entry is a [note.Write] as one informer notes it.
type Entry[V any] struct {
	Key      string
	Outcome  note.Outcome
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
