// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"sync"
	"sync/atomic"
	"weak"
)

// caches numbers the caches of the process that have no name of their own: the names of
// informers must be unique in it, and begin with that of their cache.
var caches atomic.Int64

func nameOr(chosen string) string {
	if chosen != "" {
		return chosen
	}
	return fmt.Sprintf("tarn-%d", caches.Add(1))
}

// names has the names that caches of the process were given by their users. A cache that is
// garbage, because it was never started, holds its name no longer.
var names = struct {
	mu    sync.Mutex // guards taken
	taken map[string]weak.Pointer[informerCache]
}{taken: map[string]weak.Pointer[informerCache]{}}

// claim takes name for c until Start returns: metrics of two caches under one name could not be
// told apart. No name is always free.
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
