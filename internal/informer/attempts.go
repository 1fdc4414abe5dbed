// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"strconv"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

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

// reflect is Reflector.RunWithContext with the error handler of the informer: only client-go's
// own informers can give a Reflector one.
func (i *Informer) reflect(ctx context.Context) {
	i.mu.Lock()
	handle := i.onWatchError
	reflector := i.newReflector(ctx)
	i.run.reflector = reflector
	i.mu.Unlock()
	Retry(ctx, i.clock, func(ctx context.Context) (done bool) {
		attempt, abort := context.WithCancelCause(ctx)
		defer abort(nil)
		i.store.losses.refused, i.store.progress.abort = nil, abort
		err := reflector.ListAndWatchWithContext(attempt)
		for errors.As(err, new(interface{ ListsAgain() })) && attempt.Err() == nil { // nothing has failed
			err = reflector.ListAndWatchWithContext(attempt)
		}
		if err != nil && attempt.Err() == nil {
			handle(ctx, reflector, because(err, i.store.losses.refused))
		}
		return false
	})
}

// newReflector returns a Reflector whose waits end with ctx.
func (i *Informer) newReflector(ctx context.Context) *toolscache.Reflector {
	logger := klog.FromContext(ctx)
	// Without an example the Reflector lets every decodedEvent pass. The source has checked the kind.
	return toolscache.NewReflectorWithOptions(i.lw, nil, i.store, toolscache.ReflectorOptions{
		TypeDescription: i.description,
		Clock:           runClock{i.clock, ctx, &i.running},
		Logger:          &logger,
	})
}

// clear makes the state empty, at the version that it has.
func (in *reflectorStore) clear() {
	version := strconv.FormatUint(in.engine.Revision(), 10)
	in.replace(nil, version, false)
	in.losses.begin()
	in.losses.replace()
	in.losses.unindexed.replaced(nil)
	in.progress.newest, in.progress.left = 0, 0
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
