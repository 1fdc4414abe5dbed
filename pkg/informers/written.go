// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// written says which kinds the program has written in a scope, and the newest resource version of each.
// It has one number for each kind, whatever was written. A list from the cache of an API server may be
// older than what the program has written before the informer was there. A nil *written knows nothing.
type written struct {
	mu    sync.Mutex // guards kinds
	kinds map[schema.GroupKind]uint64
}

// note says that a kind was written at a revision; 0 is for an unknown one.
func (w *written) note(kind schema.GroupKind, revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kinds == nil {
		w.kinds = map[schema.GroupKind]uint64{}
	}
	w.kinds[kind] = max(w.kinds[kind], revision)
}

// newest returns the newest revision of a kind that is known, 0 if none is.
func (w *written) newest(kind schema.GroupKind) uint64 {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kinds[kind]
}

// has reports whether a kind was written.
func (w *written) has(kind schema.GroupKind) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.kinds[kind]
	return ok
}

// wentBack says that the revisions of a kind have gone back, as after a restore of etcd.
func (w *written) wentBack(kind schema.GroupKind) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.kinds[kind]; ok {
		w.kinds[kind] = 0
	}
}
