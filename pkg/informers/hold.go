// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tarn-dev/tarn/internal/informer"
)

// Hold returns the entry for key if there is one, which then cannot be removed until the caller has called the function.
func (m *Map) Hold(key Key) (entry *MapEntry, letGo func(), ok bool) {
	holding := &m.options.holding
	holding.Lock()
	defer holding.Unlock()
	if entry, ok = m.Peek(key); !ok {
		return nil, nil, false
	}
	entry.life.held++
	return entry, sync.OnceFunc(func() {
		holding.Lock()
		defer holding.Unlock()
		entry.life.held--
	}), true
}

// RemoveAll is [Map.Remove] for all of the maps, or for none if somebody holds the informer of one. The maps belong to one cache.
func (key Key) RemoveAll(from []*Map) error {
	taken, err := key.take(from)
	for _, entry := range taken {
		// Without the locks, since it waits for a function of the user's that indexes all objects.
		if view, ok := entry.Informer.(*informer.View); ok {
			view.Close()
		}
	}
	return err
}

// take removes the entries of all maps, and stops their informers.
func (key Key) take(from []*Map) (taken []*MapEntry, _ error) {
	holding := &from[0].options.holding
	holding.Lock()
	defer holding.Unlock()
	var held []error
	for _, m := range from {
		if entry, ok := m.Peek(key); ok && entry.life.held > 0 {
			held = append(held, fmt.Errorf("cannot remove the informer of %s: it serves leases (%d), which must be released first", entry, entry.life.held))
		}
	}
	if len(held) > 0 {
		return nil, errors.Join(held...)
	}
	for _, m := range from {
		if entry := m.take(key); entry != nil {
			taken = append(taken, entry)
		}
	}
	return taken, nil
}
