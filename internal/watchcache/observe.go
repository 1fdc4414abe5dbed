// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

// Observer is told of all writes. Its functions are called with the engine's lock held, and must not call the engine. A
// function that is nil is not called.
type Observer[V any] struct {
	// Written is told what an object was before it was written or deleted, the zero Item if it is new. Before a Replace
	// it is told of each object that there was.
	Written func(was Item[V])
	// Rewritten is called after a Rewrite: no snapshot that was taken before has a value that is in the state.
	Rewritten func()
}

// Observe has o told of all writes from now on, in place of the Observer before.
func (e *Engine[V, A]) Observe(o Observer[V]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = o.complete()
}

// complete returns o with what was left out.
func (o Observer[V]) complete() Observer[V] {
	if o.Written == nil {
		o.Written = func(Item[V]) {}
	}
	if o.Rewritten == nil {
		o.Rewritten = func() {}
	}
	return o
}
