// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import "github.com/tidwall/btree"

// dirty is what has changed since a copy of the state was made.
type dirty struct {
	keys map[string]struct{} // that were written
	all  bool                // the state was replaced, or all values
}

func (e *Engine[V, A]) markLocked(key string) {
	for d := range e.copies {
		d.keys[key] = struct{}{}
	}
}

func (e *Engine[V, A]) markAllLocked() {
	for d := range e.copies {
		d.all = true
	}
}

// offLockAttempts is how often a build that a Replace has overtaken is tried without the lock,
// before it is done with the lock held.
const offLockAttempts = 3

// offLock makes something of the whole state without the lock, so that others read and write
// meanwhile: build gets a copy of the objects. Then adopt is called with the lock held; it
// gets the copy, and the keys that were written meanwhile. If a Replace came meanwhile, build
// is called again; after offLockAttempts it is called with the lock held.
func (e *Engine[V, A]) offLock(build func(*btree.BTreeG[Item[V]]), adopt func(of *btree.BTreeG[Item[V]], written map[string]struct{})) {
	for range offLockAttempts {
		if e.tryOffLock(build, adopt) {
			return
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	build(e.items)
	adopt(e.items, nil)
}

func (e *Engine[V, A]) tryOffLock(build func(*btree.BTreeG[Item[V]]), adopt func(of *btree.BTreeG[Item[V]], written map[string]struct{})) bool {
	d := &dirty{keys: map[string]struct{}{}}
	e.mu.Lock()
	items := e.items.Copy()
	if e.copies == nil {
		e.copies = map[*dirty]struct{}{}
	}
	e.copies[d] = struct{}{}
	e.mu.Unlock()
	defer func() { // also if a function that was given to the engine panics
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.copies, d)
	}()
	build(items)
	e.mu.Lock()
	defer e.mu.Unlock()
	if d.all {
		return false
	}
	adopt(items, d.keys)
	return true
}
