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
	mu    sync.Mutex // guards all below; nobody else wants it while events come
	after uint64     // the versions above it are the newest of their Pods
	left  int        // of those
	calls int
	first instant
	last  instant
	done  chan struct{} // closed when none is left; made by expect
}

func newCounter() *counter { return &counter{} }

// expect begins a new count, after the events of the one before. The other fields may
// be read once done is closed.
func (c *counter) expect(after uint64, newest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after, c.left, c.calls = after, newest, 0
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
	if c.calls == 1 {
		c.first = now()
	}
	if version <= c.after || c.left == 0 {
		return
	}
	if c.left--; c.left == 0 {
		c.last = now()
		close(c.done)
	}
}

// seen returns the number of calls so far.
func (c *counter) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}
