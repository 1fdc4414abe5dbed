// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/pkg/informers"
)

const (
	// lookFor is how long events are followed after a look.
	lookFor = time.Minute
	// ringBytes bounds the events that are kept of one kind.
	ringBytes = 64 << 10
	// maxTaps is the number of kinds that are followed at the same time, and maxFollowed the number of the
	// informers of each.
	maxTaps     = 16
	maxFollowed = 32
	// patience is how long a poll waits until it follows: an informer that the user made may take no handler for ever.
	patience = time.Second
)

// taps follow the events of kinds at which somebody looks. There is nothing here if nobody does.
type taps struct {
	start   func(func(context.Context)) bool // runs a function in a goroutine of the cache
	numbers atomic.Uint64                    // of all events: whoever asks for those after one misses none of a later tap

	mu   sync.Mutex // guards open; it comes before tap.mu
	open map[informers.Key]*tap
}

func newTaps(start func(func(context.Context)) bool) *taps {
	return &taps{start: start, open: map[informers.Key]*tap{}}
}

// tap follows the informers of one kind.
type tap struct {
	ctx    context.Context // ends with the tap
	end    context.CancelFunc
	timer  *time.Timer // calls end
	polled time.Time   // last; guarded by the lock of the taps
	since  time.Time

	mu       sync.Mutex                             // guards what follows
	before   map[inspected.Followed]uint64          // what each informer had received at the first poll, or when it was made; nil before that
	followed map[inspected.Followed]<-chan struct{} // closed when it is followed, or will not be
	failed   map[inspected.Followed]error           // why these informers cannot be followed
	missed   uint64
	ring     ring
}

// recent is what a tap has seen.
type recent struct {
	// Since is when the first poll began: nothing is known of what was before.
	Since time.Time `json:"since"`
	Time  time.Time `json:"time"`
	// Counts are those of all events since then, Newest is the number of the last one.
	Counts map[watch.EventType]uint64 `json:"counts"`
	Newest uint64                     `json:"newest"`
	// Events are the newest of the events that were asked for, in their order.
	Events []eventInfo `json:"events"`
	// NotFollowed is the number of namespaces whose events are not shown.
	NotFollowed int `json:"notFollowed,omitempty"`
	// Missed is how many events came between the first poll and the moment from which on their informer is followed:
	// it was made later, or too many were followed. An event of that very moment may be among Events too.
	Missed uint64 `json:"missed,omitempty"`
	// Problem says why events are not shown of an informer that should be followed.
	Problem string `json:"problem,omitempty"`
}

// poll returns the events of a kind behind the one with a number, and follows them for a minute. It waits until it follows, so that later
// events are among those of the next poll.
func (t *taps) poll(ctx context.Context, key informers.Key, informers []inspected.Followed, after uint64) recent {
	one := t.tap(key)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, begun := range one.follow(informers, t.start) {
		select {
		case <-begun:
		case <-one.ctx.Done():
		case <-ctx.Done():
		}
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	counts := map[watch.EventType]uint64{watch.Added: 0, watch.Modified: 0, watch.Deleted: 0}
	for of, n := range one.ring.counts {
		counts[of] = n
	}
	r := recent{
		Since: one.since, Time: time.Now(), Counts: counts, Newest: one.ring.newest, Events: one.ring.after(after),
		NotFollowed: max(0, len(informers)-maxFollowed), Missed: one.missed,
	}
	for _, err := range one.failed {
		r.Problem = err.Error()
	}
	return r
}

// tap returns the tap of a kind, which goes on for a minute.
func (t *taps) tap(key informers.Key) *tap {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if one, ok := t.open[key]; ok && one.timer.Reset(lookFor) {
		one.polled = now
		return one
	} // the timer of one that is there, and cannot be reset, is about to remove it
	if len(t.open) >= maxTaps {
		t.closeLocked(t.leastWantedLocked())
	}
	one := &tap{
		since: now, polled: now, followed: map[inspected.Followed]<-chan struct{}{}, failed: map[inspected.Followed]error{},
		ring: newRing(ringBytes, t.numbers.Load(), func() uint64 { return t.numbers.Add(1) }),
	}
	one.ctx, one.end = context.WithCancel(context.Background())
	one.timer = time.AfterFunc(lookFor, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.open[key] == one {
			delete(t.open, key)
		}
		one.end()
	})
	t.open[key] = one
	return one
}

// leastWantedLocked returns the kind at which nobody has polled for the longest time.
func (t *taps) leastWantedLocked() (key informers.Key) {
	var oldest *tap
	for k, one := range t.open {
		if oldest == nil || one.polled.Before(oldest.polled) {
			key, oldest = k, one
		}
	}
	return key
}

func (t *taps) closeLocked(key informers.Key) {
	one := t.open[key]
	one.timer.Stop()
	one.end()
	delete(t.open, key)
}

// follow follows those informers that are not followed yet. It does not try an informer again that
// could not be followed. It returns what says of each that it is followed.
func (t *tap) follow(informers []inspected.Followed, start func(func(context.Context)) bool) (begun []<-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.knowLocked(informers)
	for _, one := range informers[:min(len(informers), maxFollowed)] {
		if follows, already := t.followed[one]; already {
			begun = append(begun, follows)
			continue
		}
		if t.failed[one] != nil || len(t.followed) >= maxFollowed {
			continue
		}
		before, follows := t.before[one], make(chan struct{})
		begin := sync.OnceFunc(func() { close(follows) })
		if start(func(ctx context.Context) {
			defer begin()
			t.run(ctx, one, func() {
				received := one.Received()
				t.mu.Lock()
				defer t.mu.Unlock()
				t.missed += received - before
				begin()
			})
		}) {
			t.followed[one], begun = follows, append(begun, follows)
		}
	}
	return begun
}

// knowLocked notes what new informers have received, and forgets the removed ones.
func (t *tap) knowLocked(informers []inspected.Followed) {
	before := make(map[inspected.Followed]uint64, len(informers))
	for _, one := range informers {
		if received, known := t.before[one]; known || t.before != nil {
			before[one] = received // zero of one that was made since the first poll
		} else {
			before[one] = one.Received()
		}
	}
	t.before = before
	maps.DeleteFunc(t.failed, func(one inspected.Followed, _ error) bool { _, there := before[one]; return !there })
}

// run follows one informer until the tap, the informer or the cache ends. It calls begun when it follows.
func (t *tap) run(ctx context.Context, one inspected.Followed, begun func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(t.ctx, cancel)
	defer stop()
	err := one.Follow(ctx, begun, func(c inspected.Change) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ring.add(time.Now(), c)
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.followed, one)
	if ctx.Err() == nil { // it is removed, or cannot be followed
		t.failed[one] = err
	}
}
