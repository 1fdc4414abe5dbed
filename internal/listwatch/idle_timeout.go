// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/internal/ordered"
)

const (
	// grace is how long after its time-out the API server may end a watch.
	grace = 30 * time.Second
	// longestWatch is the time-out of a watch that asks for none.
	longestWatch = 10 * time.Minute
	// maxCuts is the number of watches in a row that may bring nothing. A server that was restored
	// from a backup sends nothing to a watch of a version that it does not have yet, so a list
	// follows: the server refuses a list of such a version.
	maxCuts = 2
)

// idleTimeout ends the watches of a source that are silent for too long. API servers send a bookmark
// about every minute to clients that ask for them. A watch that has not brought one yet may be silent until
// its time-out. Safe for concurrent use.
type idleTimeout struct {
	limit time.Duration
	cut   func(time.Duration) // is told of each watch that is ended, and how long it was silent

	cuts atomic.Int32 // watches in a row that were ended and had brought nothing
}

// watch opens a watch, which ends if it is silent for too long. It calls each with its events.
func (s *idleTimeout) watch(ctx context.Context, opts metav1.ListOptions, each func(watch.Event) watch.Event,
	open func(context.Context) (watch.Interface, error)) (watch.Interface, error) {
	streaming := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if cuts := s.cuts.Load(); !streaming && cuts >= maxCuts {
		s.cuts.Store(0)
		return nil, nothingBrought(cuts)
	}
	l := &listener{of: s, streaming: streaming, longest: longestWatch + grace}
	if opts.TimeoutSeconds != nil {
		l.longest = time.Duration(*opts.TimeoutSeconds)*time.Second + grace
	}
	ctx, cancel := context.WithCancel(ctx)
	l.begin(cancel)
	w, err := open(ctx)
	if err != nil {
		if l.end() {
			err = fmt.Errorf("the API server has not begun to answer a watch: %w", err)
		}
		cancel()
		return nil, err
	}
	events := ordered.New(w, func(e watch.Event) watch.Event {
		l.heard(e.Type)
		return each(e)
	})
	l.interrupt(events.Close)
	return &heardWatch{Interface: events, listener: l, cancel: cancel}, nil
}

// nothingBrought is the error in place of a watch after so many silent ones: a list follows.
type nothingBrought int32

// Error implements error.
func (n nothingBrought) Error() string {
	return fmt.Sprintf("%d watches in a row have brought nothing, not even a bookmark: listing again", int32(n))
}

// heardWatch is a watch with a listener.
type heardWatch struct {
	watch.Interface
	listener *listener
	cancel   context.CancelFunc
}

// Stop implements watch.Interface.
func (w *heardWatch) Stop() {
	w.listener.end()
	w.Interface.Stop()
	w.cancel()
}

// listener notices that a watch is silent. Its timer is the only thing that runs.
type listener struct {
	of        *idleTimeout
	streaming bool          // the watch begins with a list, whose end is a bookmark
	longest   time.Duration // the time-out of the watch
	last      atomic.Int64  // when something came, in nanoseconds since 1970
	bookmarks atomic.Int32
	brought   atomic.Bool

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	stop  func() // ends the watch
	ended bool
	cut   bool // the watch was ended because it was silent
}

func (l *listener) begin(stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = stop
	l.last.Store(time.Now().UnixNano())
	l.timer = time.AfterFunc(l.of.limit, l.poll)
}

// interrupt sets what ends the watch from now on.
func (l *listener) interrupt(stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = stop
	if l.cut { // between the two
		stop()
	}
}

// heard notes an event.
func (l *listener) heard(t watch.EventType) {
	l.last.Store(time.Now().UnixNano())
	if !l.brought.Load() {
		l.brought.Store(true)
		l.of.cuts.Store(0)
	}
	if t == watch.Bookmark {
		l.bookmarks.Add(1)
	}
}

// allowed returns how long the watch may be silent now. A server sends a bookmark every minute once its
// own version of the kind is above the version at which the watch began. That may take a while: without
// writes to a kind, etcd tells an API server a newer version every ten minutes. So the limit counts in
// a watch that has brought a bookmark itself; that at the end of a list is not one.
func (l *listener) allowed() time.Duration {
	if n := l.bookmarks.Load(); n > 1 || n > 0 && !l.streaming {
		return l.of.limit
	}
	return max(l.of.limit, l.longest)
}

// poll ends the watch if it has been silent for too long, and polls again later otherwise.
func (l *listener) poll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.cut {
		return
	}
	silent := time.Since(time.Unix(0, l.last.Load()))
	if rest := l.allowed() - silent; rest > 0 {
		l.timer.Reset(min(rest, l.of.limit))
		return
	}
	l.cut = true
	if !l.brought.Load() {
		l.of.cuts.Add(1)
	}
	l.of.cut(silent)
	l.stop()
}

// end ends the listener, and reports whether it has ended the watch.
func (l *listener) end() (cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.timer.Stop()
	return l.cut
}
