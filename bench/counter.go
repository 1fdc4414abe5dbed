// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// counter is an event handler that does nothing but find out when it has had the
// newest version of every Pod.
type counter struct {
	mu     sync.Mutex // guards all below; nobody else wants it while events come
	first  uint64     // the resourceVersion of the first event that is counted
	newest []bool     // of the events from first on: it is the last one of its Pod; never changed
	left   int        // of the newest
	calls  int
	done   chan struct{} // closed when none is left; made by expect
}

// expect begins a new count, after the events of the one before.
func (c *counter) expect(first uint64, newest []bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first, c.newest, c.left, c.calls = first, newest, 0, 0
	for _, is := range newest {
		if is {
			c.left++
		}
	}
	c.done = make(chan struct{})
}

func (c *counter) update(_, object any) {
	pod, ok := object.(metav1.Object)
	if !ok {
		return
	}
	version := parseVersion(pod.GetResourceVersion())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if at := version - c.first; version < c.first || at >= uint64(len(c.newest)) || !c.newest[at] {
		return
	}
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// seen returns the number of calls so far.
func (c *counter) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}
