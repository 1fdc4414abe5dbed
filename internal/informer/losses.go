// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// TransformError is the error of a transform for an object.
type TransformError struct {
	// Object is the key of the object.
	Object types.NamespacedName
	err    error
}

// Error implements error.
func (e *TransformError) Error() string { return e.err.Error() }

// Unwrap returns the error of the transform, with the name of the object.
func (e *TransformError) Unwrap() error { return e.err }

// maxLost is the number of lost objects whose keys are kept.
const maxLost = 1000

// losses are the objects that the informer has received, and could not write into the engine
// because their transform failed. An object leaves the losses when it is written or deleted, or
// with a new list. Beyond maxLost only the number is known, until a new list. Safe for concurrent
// use.
type losses struct {
	changed   func()       // called after each change, without mu
	number    atomic.Int64 // of lost and more
	refused   error        // why the last list was refused, or nil; of the goroutine that lists
	unindexed unindexed

	mu      sync.Mutex // guards what follows
	lost    map[types.NamespacedName]*TransformError
	last    *TransformError
	more    int
	pending map[types.NamespacedName]*TransformError // of the list that is being received
}

// add notes that an object is lost.
func (l *losses) add(e *TransformError) {
	l.mu.Lock()
	if l.lost == nil {
		l.lost = map[types.NamespacedName]*TransformError{}
	}
	if _, known := l.lost[e.Object]; known || len(l.lost) < maxLost {
		l.lost[e.Object] = e
	} else {
		l.more++
	}
	l.last = e
	l.number.Store(int64(len(l.lost) + l.more))
	l.mu.Unlock()
	l.changed()
}

// found notes that an object is written or deleted.
func (l *losses) found(key types.NamespacedName) {
	if l.number.Load() == 0 {
		return
	}
	l.mu.Lock()
	delete(l.lost, key)
	l.number.Store(int64(len(l.lost) + l.more))
	l.mu.Unlock()
	l.changed()
}

// following returns lw with requests for lists that the losses know of: the Reflector tells of none, and tries a list that breaks
// again. A list that a Reflector asks for at "0" is asked for at the version first; a streaming list is not.
func (l *losses) following(lw toolscache.ListerWatcher, first string) toolscache.ListerWatcher {
	from := toolscache.ToListerWatcherWithContext(lw)
	return toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			l.begin()
			if opts.ResourceVersion == "0" && first != "0" { // without pages: the server would answer with exactly that version
				if opts.ResourceVersion, opts.Limit = first, 0; first != "" {
					opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
				}
			}
			return from.ListWithContext(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			if ptr.Deref(opts.SendInitialEvents, false) {
				l.begin()
			}
			return from.WatchWithContext(ctx, opts)
		},
	}, lw)
}

// begin notes that a list is about to be received.
func (l *losses) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = nil
}

// addPending notes that an object of the list that is being received is lost. It notes at most
// maxLost.
func (l *losses) addPending(e *TransformError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		l.pending = map[types.NamespacedName]*TransformError{}
	}
	if len(l.pending) < maxLost {
		l.pending[e.Object] = e
	}
}

// received notes that the list has an object, although its transform failed once.
func (l *losses) received(items []watchcache.Item[object.Object]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return
	}
	for _, item := range items {
		namespace, name := object.SplitKey(item.Key)
		delete(l.pending, types.NamespacedName{Namespace: namespace, Name: name})
	}
}

// replace notes that the list is in the engine.
func (l *losses) replace() {
	l.mu.Lock()
	l.lost, l.pending, l.more, l.last = l.pending, nil, 0, nil
	for _, e := range l.lost {
		l.last = e
		break
	}
	before := l.number.Swap(int64(len(l.lost)))
	after := len(l.lost)
	l.mu.Unlock()
	if before > 0 || after > 0 {
		l.changed()
	}
}

// Lost returns the number of objects that the informer has received and does not hold because their
// transform failed, and the error of one of them. An object that was lost when it changed is held
// as it was before.
func (i *Informer) Lost() (int, *TransformError) {
	l := i.store.losses
	number := l.number.Load()
	if number == 0 {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil { // a list has come meanwhile
		return 0, nil
	}
	if _, there := l.lost[l.last.Object]; there {
		return int(number), l.last
	}
	for _, e := range l.lost {
		return int(number), e
	}
	return int(number), l.last
}

// LostObject returns the error with which an object was lost, or nil.
func (i *Informer) LostObject(key types.NamespacedName) *TransformError {
	l := i.store.losses
	if l.number.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost[key]
}
