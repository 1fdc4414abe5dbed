// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// settling is how long a watch goes on after the rule has changed: changes come several at a time.
const settling = time.Second

// errAgain has a Reflector list again, because what its watch brings is not what it is to bring.
var errAgain = apierrors.NewResourceExpired("what is listed and watched has changed: listing again")

// anew has a Reflector list again when the rule of its source has changed, see Options.Changed. The Reflector calls its methods one after
// the other.
type anew struct {
	changed func() <-chan struct{} // nil if the rule never changes
	since   <-chan struct{}        // closed if the rule has changed since the last list
	ended   atomic.Bool            // a watch was ended for that
}

// listing is called before a list.
func (a *anew) listing() {
	if a.changed != nil {
		a.ended.Store(false)
		a.since = a.changed()
	}
}

// watch opens a watch, which ends when the rule has changed. A list follows.
func (a *anew) watch(opts metav1.ListOptions, open func() (watch.Interface, error)) (watch.Interface, error) {
	switch {
	case a.changed == nil:
		return open()
	case opts.SendInitialEvents != nil && *opts.SendInitialEvents:
		a.listing()
	case a.ended.Swap(false):
		return nil, errAgain
	}
	w, err := open()
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	following := &sync.WaitGroup{}
	following.Go(func() { a.follow(life, a.since, w) })
	return &watchUntil{w, func() { end(); following.Wait() }}, nil
}

// follow ends a watch some time after the rule has changed.
func (a *anew) follow(life context.Context, changed <-chan struct{}, w watch.Interface) {
	select {
	case <-changed:
	case <-life.Done():
		return
	}
	select {
	case <-time.After(settling):
		a.ended.Store(true)
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
