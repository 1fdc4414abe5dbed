// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import "github.com/tidwall/btree"

// notes says what has changed since a copy of the state was made.
type notes struct {
	keys map[string]struct{} // that were written
	all  bool                // the state was replaced, or all values
}

func (e *Engine[V, A]) noteLocked(key string) {
	for n := range e.noting {
		n.keys[key] = struct{}{}
	}
}

func (e *Engine[V, A]) noteAllLocked() {
	for n := range e.noting {
		n.all = true
	}
}

// besideAttempts is how often something is made anew that a Replace has overtaken,
// before that has to wait for it.
const besideAttempts = 3

// beside makes something of the whole state while others read and write: build gets a
// copy. Then adopt is called with the lock held; it gets the copy, and the keys that
// were written meanwhile. If that is everything, build is called again, the last time
// with the lock held.
func (e *Engine[V, A]) beside(build func(*btree.BTreeG[Item[V]]), adopt func(of *btree.BTreeG[Item[V]], written map[string]struct{})) {
	for range besideAttempts {
		if e.tryBeside(build, adopt) {
			return
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	build(e.items)
	adopt(e.items, nil)
}

func (e *Engine[V, A]) tryBeside(build func(*btree.BTreeG[Item[V]]), adopt func(of *btree.BTreeG[Item[V]], written map[string]struct{})) bool {
	n := &notes{keys: map[string]struct{}{}}
	e.mu.Lock()
	items := e.items.Copy()
	e.noting[n] = struct{}{}
	e.mu.Unlock()
	defer func() { // also if a function that was given to the engine panics
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.noting, n)
	}()
	build(items)
	e.mu.Lock()
	defer e.mu.Unlock()
	if n.all {
		return false
	}
	adopt(items, n.keys)
	return true
}
