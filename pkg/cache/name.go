// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"sync"
	"sync/atomic"
	"weak"
)

// caches counts the caches of the process that the user gave no name. The name of an informer
// begins with the name of its cache, and must be unique in the process.
var caches atomic.Int64

func nameOr(chosen string) string {
	if chosen != "" {
		return chosen
	}
	return fmt.Sprintf("tarn-%d", caches.Add(1))
}

// names holds the names that users gave to caches of the process. The pointers are weak, so that a
// cache that was never started and is garbage does not block its name.
var names = struct {
	mu    sync.Mutex // guards taken
	taken map[string]weak.Pointer[informerCache]
}{taken: map[string]weak.Pointer[informerCache]{}}

// claim reserves name for c until Start returns, because metrics of two caches with the same name
// could not be told apart. The empty name is never reserved.
func (c *informerCache) claim(name string) error {
	if name == "" {
		return nil
	}
	names.mu.Lock()
	defer names.mu.Unlock()
	if names.taken[name].Value() != nil {
		return fmt.Errorf("cache tuning: the Name %q is that of another cache of this process, which has not ended: give each cache its own", name)
	}
	mine := weak.Make(c)
	names.taken[name] = mine
	c.release = func() {
		names.mu.Lock()
		defer names.mu.Unlock()
		if names.taken[name] == mine {
			delete(names.taken, name)
		}
	}
	return nil
}
