// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/internal/relist"
	"github.com/tarn-dev/tarn/internal/signal"
)

// The causes with which the context of a list or a watch ends, apart from the end of the informer.
var (
	// ErrDormant says that the informer was dormant.
	ErrDormant = errors.New("the informer is dormant")
	// ErrWentBack says that the source is at an older version than the state.
	ErrWentBack = errors.New("the versions of the source have gone back")
)

// dormancy says whether an informer lists and watches, or waits. Safe for concurrent use.
type dormancy struct {
	mu      sync.Mutex // guards what follows
	dormant bool
	leave   context.CancelCauseFunc // ends the list or watch of now; nil if there is none
	left    bool                    // the list or watch of now was ended
	over    bool                    // it stays dormant, and the informer ends
	changed signal.Broadcast        // of dormant and over
}

func (d *dormancy) set(dormant bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dormant == dormant || d.over {
		return
	}
	d.setLocked(dormant)
}

// end makes the informer dormant for good.
func (d *dormancy) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.setLocked(true)
}

func (d *dormancy) isOver() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}

func (d *dormancy) setLocked(dormant bool) {
	d.dormant = dormant
	if d.leave != nil {
		d.leave(ErrDormant)
		d.leave, d.left = nil, true
	}
	d.changed.Notify()
}

// enter returns a context for listing and watching, which ends when the informer is dormant. If it is
// dormant, enter returns a channel instead, which is closed when it is not.
func (d *dormancy) enter(ctx context.Context) (context.Context, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dormant {
		ctx, d.leave = context.WithCancelCause(ctx)
		d.left = false
		return ctx, nil
	}
	return nil, d.changed.Wait()
}

// abort ends the list or watch of now, for a cause; another one follows.
func (d *dormancy) abort(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leave != nil {
		d.leave(cause)
	}
}

// pause waits until over, until the informer becomes dormant, or until ctx ends.
func (d *dormancy) pause(ctx context.Context, over <-chan time.Time) {
	d.mu.Lock()
	changed, dormant := d.changed.Wait(), d.dormant
	d.mu.Unlock()
	if dormant {
		return
	}
	select {
	case <-over:
	case <-changed:
	case <-ctx.Done():
	}
}

// unlessLeft calls f, unless the list or watch of the caller was ended. A call of Sleep waits meanwhile for f.
func (d *dormancy) unlessLeft(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.left {
		f()
	}
}

// Sleep lets the informer hold nothing and ask for nothing, until Wake. Handlers are told that the objects
// are gone, and the informer counts as synced. Sleep does not wait for that. When it has returned,
// Observer.Listed is not called for an earlier list.
func (i *Informer) Sleep() { i.run.dormancy.set(true) }

// Wake lets a dormant informer list and watch again, from nothing.
func (i *Informer) Wake() { i.run.dormancy.set(false) }

// Leave ends the informer, which runs or will: as after Sleep handlers are told that the objects are gone, and then RunWithContext returns.
// Leave does not wait for that: see Ended.
func (i *Informer) Leave() { i.run.dormancy.end() }

// Ended returns a channel that is closed when RunWithContext is about to return, and no handler runs any more.
func (i *Informer) Ended() <-chan struct{} { return i.ended }

// listAndWatch lists and watches until ctx ends, or until Leave was called, except while the informer is dormant.
func (i *Informer) listAndWatch(ctx context.Context) {
	for ctx.Err() == nil {
		attempts, woken := i.run.dormancy.enter(ctx)
		if attempts != nil {
			if i.counts.synced.Load() == 0 { // the time until the kind was served is none of the first list's
				i.counts.begun.Store(i.clock.Now().UnixNano())
			}
			i.reflect(attempts)
			if errors.Is(context.Cause(attempts), ErrWentBack) { // that concerns all informers: they spread
				i.pause(ctx)
			}
			continue
		}
		i.store.clear()
		if i.run.dormancy.isOver() {
			return
		}
		select {
		case <-woken:
		case <-ctx.Done():
		}
	}
}

// reflect lists and watches again and again, as Reflector.RunWithContext does, with the error handler of the informer: only client-go's
// own informers can give a Reflector one.
func (i *Informer) reflect(ctx context.Context) {
	i.mu.Lock()
	handle := i.onWatchError
	i.run.reflector, i.store.progress.tried = nil, false
	i.mu.Unlock()
	relist.Retry(ctx, i.clock, func(ctx context.Context) (done bool) {
		i.store.losses.refused = nil
		if err := i.attempt(ctx); err != nil && ctx.Err() == nil {
			handle(ctx, i.reflector(ctx), because(err, i.store.losses.refused))
		}
		return false
	})
}

// follower is a ListerWatcher that may bring objects without a Reflector, as one of package listwatch. After an error with ListsAgain it is
// asked again at once.
type follower interface {
	Follow(ctx context.Context, version string, to interface {
		toolscache.ReflectorStore
		toolscache.ReflectorBookmarkStore
	}) (followed bool, err error)
}

// pause waits for about as long as a Reflector does between two attempts.
func (i *Informer) pause(ctx context.Context) {
	i.run.dormancy.pause(ctx, i.clock.After(wait.Jitter(800*time.Millisecond, 1)))
}

// attempt lists and watches, with a Reflector or without, until that fails, ctx ends, or a pause is due.
func (i *Informer) attempt(ctx context.Context) error {
	for shared := false; ctx.Err() == nil; {
		joined, err := i.share(ctx)
		if !joined && err == nil {
			if shared { // that has ended for all namespaces: they spread
				i.pause(ctx)
			}
			err = i.reflector(ctx).ListAndWatchWithContext(ctx)
			i.store.progress.tried = true
		}
		if !errors.As(err, new(interface{ ListsAgain() })) {
			return err
		}
		shared = joined
	}
	return nil
}

// share follows a watch that others share, without a Reflector, if there is one.
func (i *Informer) share(ctx context.Context) (joined bool, err error) {
	f, ok := i.lw.(follower)
	if !ok {
		return false, nil
	}
	i.store.losses.begin()
	return f.Follow(ctx, i.store.progress.leastVersion(), followedStore{i.store, i})
}

// followedStore is the store of an informer that follows.
type followedStore struct {
	*reflectorStore
	of *Informer
}

// Replace implements ReflectorStore. It drops the Reflector, whose version is older than the list: the next one begins at the version of the
// state.
func (s followedStore) Replace(list []any, resourceVersion string) error {
	if err := s.reflectorStore.Replace(list, resourceVersion); err != nil {
		return err
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.progress.tried, s.of.run.reflector = true, nil
	return nil
}

// reflector returns the Reflector, which it makes if there is none. A new one lists from progress.leastVersion. Its waits end with ctx.
func (i *Informer) reflector(ctx context.Context) *toolscache.Reflector {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run.reflector != nil {
		return i.run.reflector
	}
	logger := klog.FromContext(ctx)
	// Without an example the Reflector lets every decodedEvent pass. The source has checked the kind.
	i.run.reflector = toolscache.NewReflectorWithOptions(i.store.losses.following(i.lw, i.store.progress.leastVersion()), nil, i.store, toolscache.ReflectorOptions{
		TypeDescription: i.description,
		Clock:           relist.ClockUntil(ctx, i.clock, &i.running),
		Logger:          &logger,
	})
	return i.run.reflector
}

// clear makes the state empty, at the version that it has.
func (in *reflectorStore) clear() {
	version := strconv.FormatUint(in.engine.Revision(), 10)
	in.replace(nil, version, false)
	in.losses.begin()
	in.losses.replace()
	in.losses.unindexed.replaced(nil)
	in.progress.newest, in.progress.back = 0, wayBack{}
	in.complete.Store(false)
	in.progress.synced()
}

// because returns err, which wraps reason if there is one: the Reflector keeps only its text.
func because(err, reason error) error {
	if reason == nil || errors.Is(err, reason) {
		return err
	}
	return &refusedList{text: err.Error(), reason: reason}
}

// refusedList is the error of a list that the reflectorStore has refused.
type refusedList struct {
	text   string
	reason error
}

func (e *refusedList) Error() string { return e.text }
func (e *refusedList) Unwrap() error { return e.reason }
