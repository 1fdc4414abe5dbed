// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"fmt"
	"maps"
	"slices"
)

// Check compares the indexes with the objects and the window with itself, and
// returns the first contradiction. It is for tests: it takes as long as to build
// every index anew, and holds the lock meanwhile.
func (e *Engine[V, A]) Check() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, pairs := range e.indexes {
		want := e.indexed(e.items, name)
		for _, value := range slices.Sorted(want.Values()) {
			if has, had := slices.Collect(pairs.Keys(value, "")), slices.Collect(want.Keys(value, "")); !slices.Equal(has, had) {
				return fmt.Errorf("index %q has %q under %q, the objects say %q", name, has, value, had)
			}
		}
		if pairs.Len() != want.Len() {
			return fmt.Errorf("index %q has %d entries, the objects say %d", name, pairs.Len(), want.Len())
		}
	}
	return e.checkWindowLocked()
}

// checkWindowLocked undoes and redoes the events of the window on the keys that
// they touch.
func (e *Engine[V, A]) checkWindowLocked() error {
	w := e.window
	if w.len() > max(1, w.ceiling) {
		return fmt.Errorf("the window spans %d events, its limit is %d", w.len(), w.ceiling)
	}
	last := map[string]Event[V, A]{}
	bytes, revision := 0, w.oldest
	for p := w.first; p < w.next; p++ {
		event := w.at(p).event
		if w.at(p).revision < revision {
			return fmt.Errorf("the event of %q at revision %d comes after one of %d", event.Item.Key, event.Item.Revision, revision)
		}
		bytes, revision = bytes+w.at(p).bytes, w.at(p).revision
		before, seen := last[event.Item.Key]
		there := seen && before.Type != Deleted
		if seen && (there == (event.Type == Added) || there && before.Item.Revision != event.Previous.Revision) {
			return fmt.Errorf("events of %q at revisions %d and %d do not follow one another", event.Item.Key, before.Item.Revision, event.Item.Revision)
		}
		last[event.Item.Key] = event
	}
	if bytes != w.bytes {
		return fmt.Errorf("the events of the window hold %d bytes, it has counted %d", bytes, w.bytes)
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		item, ok := e.items.Get(Item[V]{Key: key})
		if event := last[key]; ok == (event.Type == Deleted) || ok && item.Revision != event.Item.Revision {
			return fmt.Errorf("the newest event of %q is not its state", key)
		}
	}
	return nil
}
