// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package relist has a kind listed again: when a list fails, or what is kept changes.
package relist

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// settling is how long a watch goes on after a change: changes come several at a time.
const settling = time.Second

// Error is the error in place of a watch, after which a list follows at once. It is one of an expired version.
type Error struct{ *apierrors.StatusError }

// Now returns the error.
func Now() error { return Error{apierrors.NewResourceExpired("listing again")} }

// ListsAgain tells who retries that there is nothing to wait for.
func (Error) ListsAgain() {}

// Lists are those of a kind of which what is kept changes. A nil *Lists has no changes. It is safe for concurrent use.
type Lists struct {
	changed func() <-chan struct{}
	told    func()

	mu    sync.Mutex      // guards what follows
	begun <-chan struct{} // closed if there was a change since the newest list began
	held  <-chan struct{} // the same of the newest list that is complete; nil before that
	due   bool            // a watch was ended, or has ended, after a change
}

// New returns the lists of a kind. The channel of changed is closed at the next change; nil stands for none. Told is called before a watch is
// ended.
func New(changed func() <-chan struct{}, told func()) *Lists {
	if changed == nil {
		return nil
	}
	return &Lists{changed: changed, told: told}
}

// Begin is called before a list. A list does not count if its context has ended.
func (l *Lists) Begin(ctx context.Context) {
	if l == nil || ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = l.changed()
}

// Complete is called when the cache has what was listed.
func (l *Lists) Complete() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held = l.begun
	}
}

// Behind reports whether something else is to be kept than what the last complete list has brought.
func (l *Lists) Behind() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.held:
		return true
	default: // also before the first list
		return false
	}
}

// Watch opens a watch, which ends after a change, or at once if the last list was before that. The next one is an Error.
func (l *Lists) Watch(ctx context.Context, open func() (watch.Interface, error)) (watch.Interface, error) {
	if l == nil {
		return open()
	}
	l.mu.Lock()
	changed, due := l.begun, l.due
	l.due = false
	l.mu.Unlock()
	if due {
		return nil, Now()
	}
	w, err := open()
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(ctx)
	following := &sync.WaitGroup{}
	following.Go(func() { l.follow(life, changed, w) })
	return &watchUntil{w, func() { end(); following.Wait() }}, nil
}

// follow ends a watch some time after a change.
func (l *Lists) follow(life context.Context, changed <-chan struct{}, w watch.Interface) {
	select {
	case <-changed:
	case <-life.Done():
		return
	}
	l.mu.Lock()
	l.due = true
	l.mu.Unlock()
	select {
	case <-time.After(settling):
		l.told()
		w.Stop()
	case <-life.Done():
	}
}

// watchUntil is a watch with a goroutine beside it.
type watchUntil struct {
	watch.Interface
	end func() // ends the goroutine
}

// Stop implements watch.Interface.
func (w *watchUntil) Stop() {
	w.end()
	w.Interface.Stop()
}
