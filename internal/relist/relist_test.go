// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package relist

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/internal/signal"
)

// open opens a watch that brings nothing.
func open() (watch.Interface, error) { return watch.NewFake(), nil }

// ends reports how long a watch lasts, a minute at most.
func ends(w watch.Interface) time.Duration {
	begun := time.Now()
	select {
	case <-w.ResultChan():
	case <-time.After(time.Minute):
	}
	return time.Since(begun)
}

// isError reports whether a list is to follow at once.
func isError(err error) bool {
	return apierrors.IsResourceExpired(err) && errors.As(err, new(interface{ ListsAgain() }))
}

func TestAListFollowsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes signal.Broadcast
		told := 0
		l := New(changes.Wait, func() { told++ })
		l.Begin(t.Context())
		l.Complete()
		w, err := l.Watch(t.Context(), open)
		if err != nil || l.Behind() {
			t.Fatal(err, l.Behind())
		}
		if lasted := ends(w); lasted != time.Minute {
			t.Errorf("without a change it lasts %s", lasted)
		}
		changes.Notify()
		changes.Notify()
		if !l.Behind() {
			t.Error("there was a change")
		}
		if lasted := ends(w); lasted != settling || told != 1 {
			t.Errorf("it lasts %s, and has told %d times", lasted, told)
		}
		w.Stop()
		if _, err := l.Watch(t.Context(), open); !isError(err) {
			t.Errorf("in place of the next watch: %v", err)
		}

		l.Begin(t.Context())
		changes.Notify() // while it lists
		l.Complete()
		if !l.Behind() {
			t.Error("the list has begun before the change")
		}
		w, err = l.Watch(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.Stop() // for another reason, before it is ended
		if _, err := l.Watch(t.Context(), open); !isError(err) {
			t.Errorf("a change before the end of a watch: %v", err)
		}

		over, end := context.WithCancel(t.Context())
		l.Begin(over)
		end()
		changes.Notify()
		l.Begin(over)
		l.Complete()
		if !l.Behind() {
			t.Error("a list that is over has begun nothing")
		}
	})
}

// TestAWatchEndsItsGoroutine with its context as well.
func TestAWatchEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes signal.Broadcast
		l := New(changes.Wait, func() {})
		ctx, end := context.WithCancel(t.Context())
		l.Begin(ctx)
		if _, err := l.Watch(ctx, open); err != nil {
			t.Fatal(err)
		}
		end() // synctest waits for all goroutines
	})
}

func TestNoLists(t *testing.T) {
	l := New(nil, nil)
	l.Begin(t.Context())
	l.Complete()
	if w, err := l.Watch(t.Context(), open); err != nil || l.Behind() {
		t.Error(w, err, l.Behind())
	}
}
