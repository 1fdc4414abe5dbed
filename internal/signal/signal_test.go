// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package signal

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestNotifyWakesAllThatWait: each waiting goroutine is woken once, and a later one is not.
func TestNotifyWakesAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Broadcast
		b.Notify() // nobody waits
		var woken atomic.Int32
		for range 3 {
			go func() {
				<-b.Wait()
				woken.Add(1)
			}()
		}
		synctest.Wait()
		if n := woken.Load(); n != 0 {
			t.Fatalf("%d were woken by a change from before", n)
		}
		b.Notify()
		synctest.Wait()
		if n := woken.Load(); n != 3 {
			t.Fatalf("%d of 3 were woken", n)
		}
		select {
		case <-b.Wait():
			t.Fatal("a change was told twice")
		default:
		}
	})
}

// TestUntilReturnsWhenDone: after the first two calls, the function is called once after each change.
func TestUntilReturnsWhenDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Broadcast
		var value, calls atomic.Int32
		ended := make(chan error, 1)
		go func() {
			ended <- b.Until(t.Context(), func() bool { calls.Add(1); return value.Load() == 2 })
		}()
		for i := range int32(2) {
			synctest.Wait()
			if n := calls.Load(); n != i+2 {
				t.Fatalf("%d calls before change %d", n, i+1)
			}
			value.Add(1)
			b.Notify()
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

// TestUntilReturnsTheCause: a wait ends with its context.
func TestUntilReturnsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Broadcast
		ctx, cancel := context.WithCancelCause(t.Context())
		cause, ended := errors.New("enough"), make(chan error, 1)
		go func() { ended <- b.Until(ctx, func() bool { return false }) }()
		synctest.Wait()
		cancel(cause)
		if err := <-ended; !errors.Is(err, cause) {
			t.Fatalf("%v, want the cause", err)
		}
	})
}

// TestNoChangeIsMissed has writers and readers that wait for the last of many changes.
func TestNoChangeIsMissed(t *testing.T) {
	const changes = 1000
	var (
		b     Broadcast
		value atomic.Int32
		all   sync.WaitGroup
	)
	for range 4 {
		all.Go(func() {
			if err := b.Until(t.Context(), func() bool { return value.Load() == 2*changes }); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range changes {
				value.Add(1)
				b.Notify()
			}
		})
	}
	all.Wait()
}
