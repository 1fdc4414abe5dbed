// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// errStopped is the error of a rule that comes too late.
var errStopped = errors.New("the server of the Injector has stopped: make a new Injector for the next one")

// life counts the servers of an Injector. Injector.mu guards it.
type life struct {
	attached int  // servers
	starting int  // the ones that are not ready
	stopped  bool // there was a server, and there is none
}

// Attachment is a server's use of an Injector.
type Attachment struct {
	injector *Injector
	ready    func()
	detach   func()
}

// Attach says that a server begins to use the Injector. Package envtest calls it for its environments; a program that uses Handler
// alone has no need to. Before Ready, the calls that the server makes on its own are left alone by rules that do not name its user.
func (i *Injector) Attach() *Attachment {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.life.attached++
	i.life.starting++
	i.life.stopped = false
	a := &Attachment{injector: i}
	a.ready = sync.OnceFunc(func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.life.starting--
	})
	a.detach = sync.OnceFunc(func() {
		i.mu.Lock()
		i.life.attached--
		i.life.stopped = i.life.attached == 0
		i.mu.Unlock()
	})
	return a
}

// Ready says that the server has started.
func (a *Attachment) Ready() { a.ready() }

// Detach says that the server stops, and ends all rules. No rule can be added when no server is attached any more.
func (a *Attachment) Detach() {
	a.ready()
	a.detach()
	a.injector.End()
}

// Blame describes the rules that were hit and are in force, for the error of a server that could not start. It is empty if there
// are none.
func (a *Attachment) Blame() string {
	var hit []string
	for _, rules := range a.injector.all() {
		for _, r := range rules {
			if n := r.count(); n > 0 {
				what := "Hold"
				if r.hold == nil {
					what = nameOf(r.action)
				}
				hit = append(hit, fmt.Sprintf("%s (%s), hit %d times", what, &r.Rule, n))
			}
		}
	}
	return strings.Join(hit, "; ")
}

// isStarting says whether a server is not ready.
func (i *Injector) isStarting() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.life.starting > 0
}
