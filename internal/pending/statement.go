// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// unknown is the minimum revision of an ambiguous write until a question that was asked after it is answered. No state
// has reached it.
const unknown = math.MaxUint64

// statement says what is under a key, or under all keys with a prefix, from a revision on. It does not change.
type statement[V any] struct {
	Target
	outcome  Outcome // Ambiguous for a prefix
	at       uint64  // from which revision on it is true: the minimum revision of an ambiguous write
	answered bool    // an answer told at: the watch may bring nothing at it, so no read waits for it
	number   uint64  // in the order of notes
	noted    time.Time
	object[V]
}

// object is what a statement has of objects.
type object[V any] struct {
	revision uint64 // of the object: a state with an older one under the key has not reached the statement
	uid      types.UID
	make     func() (Made[V], error) // the value, if that is not made yet
	value    V                       // of Shown
	lost     error                   // there is an object, and this is why the cache cannot hold it; of Ambiguous: there was
	list     *watchcache.Snapshot[V] // of a prefix: the answer of the server, which reads see in place of an older state
	bytes    int                     // of make, value or list
}

// over reports whether k says more than a state at a revision, with item or nothing under the key. A state has reached k
// when it is at its revision, and has neither an older version of the object, as when the cache cannot hold the newer
// one, nor the object that is gone.
func (k *statement[V]) over(at uint64, item watchcache.Item[V], there bool, uid func(V) types.UID) bool {
	switch {
	case at < k.at:
		return true
	case !there || at == afterRestore:
		return false
	case k.outcome == Gone:
		return uid(item.Value) == k.uid
	}
	return item.Revision < k.revision
}

// open reports whether a read may have to wait for what k says.
func (k *statement[V]) open() bool { return k.outcome == Ambiguous || k.make != nil }

func (k *statement[V]) item() watchcache.Item[V] {
	return watchcache.Item[V]{Key: k.Key, Revision: k.revision, Value: k.value}
}

// dropped returns k, which has an object or a list, without it.
func (k statement[V]) dropped() statement[V] {
	k.outcome, k.object = Ambiguous, object[V]{revision: k.revision}
	return k
}
