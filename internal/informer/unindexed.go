// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// IndexError is the error for an object that the function of an index has panicked for. The object is
// in the cache and in all other indexes; that index does not have it.
type IndexError struct {
	// Object is the key of the object.
	Object types.NamespacedName
	err    error
}

// Error implements error.
func (e *IndexError) Error() string { return e.err.Error() }

// Unwrap returns what the function panicked with, with the names of the index and the object.
func (e *IndexError) Unwrap() error { return e.err }

// unindexed are the objects for which the function of an index has failed. Objects are indexed where
// they are decoded, several at once, so a failure counts for one version of an object: it ends when a
// newer version is written, when the object is deleted, or with a list that does not have it. Beyond
// maxLost objects only the number is known, until a new list. Safe for concurrent use.
type unindexed struct {
	changed func()       // called after each change, without mu
	number  atomic.Int64 // of failed and more

	mu     sync.Mutex            // guards what follows
	failed map[string]indexFault // by the key in the engine
	more   int
}

// indexFault is the failure for one version of an object.
type indexFault struct {
	revision uint64
	err      *IndexError
}

// add notes that the function of an index has panicked for an object.
func (u *unindexed) add(obj client.Object, reason any) {
	err, ok := reason.(error)
	if !ok {
		err = fmt.Errorf("the function of an index panicked at %s: %v", client.ObjectKeyFromObject(obj), reason)
	}
	key := object.Key(obj.GetNamespace(), obj.GetName())
	fault := indexFault{revision(obj.GetResourceVersion()), &IndexError{client.ObjectKeyFromObject(obj), err}}
	u.mu.Lock()
	if u.failed == nil {
		u.failed = map[string]indexFault{}
	}
	switch known, there := u.failed[key]; {
	case there && known.revision > fault.revision:
	case there, len(u.failed) < maxLost:
		u.failed[key] = fault
	default:
		u.more++
	}
	u.countLocked()
	u.mu.Unlock()
	u.changed()
}

// written notes that a version of an object, or its deletion, is in the engine.
func (u *unindexed) written(key string, revision uint64) {
	if u.number.Load() == 0 {
		return
	}
	u.mu.Lock()
	if known, there := u.failed[key]; there && known.revision < revision {
		delete(u.failed, key)
		u.countLocked()
	}
	u.mu.Unlock()
	u.changed()
}

// replaced notes that these objects are all that there are.
func (u *unindexed) replaced(items []watchcache.Item[object.Object]) {
	if u.number.Load() == 0 {
		return
	}
	defer u.changed()
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.failed
	u.failed, u.more = nil, 0
	for i := range items {
		if known, there := before[items[i].Key]; there && known.revision >= items[i].Revision {
			if u.failed == nil {
				u.failed = map[string]indexFault{}
			}
			u.failed[items[i].Key] = known
		}
	}
	u.countLocked()
}

func (u *unindexed) countLocked() { u.number.Store(int64(len(u.failed) + u.more)) }

// Unindexed returns the number of objects that some index does not have because its function has
// panicked for them, and the error of one of them.
func (i *Informer) Unindexed() (int, *IndexError) {
	u := &i.store.losses.unindexed
	if u.number.Load() == 0 {
		return 0, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, fault := range u.failed {
		return len(u.failed) + u.more, fault.err
	}
	return 0, nil
}
