// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// caches counts the caches of the process that the user gave no name. The name of an informer
// begins with the name of its cache, and must be unique in the process.
var caches atomic.Int64

// numbered begins the names that Tarn gives to caches.
const numbered = "unnamed-"

func nameOr(chosen string) string {
	if chosen != "" {
		return chosen
	}
	return numbered + strconv.FormatInt(caches.Add(1), 10)
}

// names holds the names that users gave to caches of the process.
var names = struct {
	mu    sync.Mutex // guards taken
	taken map[string]bool
}{taken: map[string]bool{}}

// claim reserves a name until release is called, because metrics of two caches with the same name
// could not be told apart. The empty name is never reserved. claim refuses the names that Tarn
// gives to caches.
func claim(name string) (release func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	if number, ok := strings.CutPrefix(name, numbered); ok {
		if _, err := strconv.ParseInt(number, 10, 64); err == nil {
			return nil, fmt.Errorf("cache tuning: the Name %q is one of those that Tarn gives to caches without a name: choose another", name)
		}
	}
	names.mu.Lock()
	defer names.mu.Unlock()
	if names.taken[name] {
		return nil, fmt.Errorf("cache tuning: the Name %q is that of another cache of this process, which has not ended: give each cache its own", name)
	}
	names.taken[name] = true
	return sync.OnceFunc(func() {
		names.mu.Lock()
		defer names.mu.Unlock()
		delete(names.taken, name)
	}), nil
}

// holdings has what a cache holds in the process from New until Start returns.
type holdings struct {
	release func() // makes the name of the cache free again
	kinds   *layout
}

// abandonWithCache lets the garbage collector give the holdings of c back with c. A cache that is
// garbage was never started, or has ended.
func (c *informerCache) abandonWithCache() {
	runtime.AddCleanup(c, func(h holdings) {
		for _, m := range h.kinds.maps() {
			m.Abandon()
		}
		h.release()
	}, holdings{c.release, c.kinds})
}
