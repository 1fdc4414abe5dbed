// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// patience is how long a read waits for the watch to bring an object whose content is not
	// known, before it asks the server: a watch that works needs some milliseconds.
	patience = 200 * time.Millisecond
	// lookEvery is how often a read that waits for an answer looks whether the watch was faster.
	lookEvery = 100 * time.Millisecond
	// waitFor bounds the wait for a revision. Watches that work are seconds behind at most, unless
	// nothing is written: then a bookmark comes each minute, which is too long to wait for.
	waitFor = 10 * time.Second
)

// BehindError is the error of a read that waited for the watch in vain.
type BehindError struct {
	Wanted  uint64 // revision
	Reached uint64
	Cause   error // for which the wait ended
}

// Error implements error.
func (e *BehindError) Error() string {
	return fmt.Sprintf("the watch is at resource version %d, and the read needs %d: %v", e.Reached, e.Wanted, e.Cause)
}

// Unwrap returns the cause.
func (e *BehindError) Unwrap() error { return e.Cause }

// UnansweredError is the error of a read for which the server was asked what became of a write, and did
// not say.
type UnansweredError struct {
	Cause error // of the question, or for which the read did not wait for the answer
}

// Error implements error.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("what became of a write is not known, and the server does not say: %v", e.Cause)
}

// Unwrap returns the cause.
func (e *UnansweredError) Unwrap() error { return e.Cause }

// ErrNoRevision is what Ask and List return if the server does not say of which revision its answer is:
// then there is nothing to compare with the watch, and what was asked for is dropped.
var ErrNoRevision = errors.New("the resource version of the list is no positive number")

var errLate = fmt.Errorf("it did not come within %v", waitFor)

// Read returns the newest state, and the entries that change what it shows, nil if there are none.
// It waits until the content of key, or of all keys with prefix if key is empty, is known as of when it was
// called. The key has the prefix too. The error says for what it waited in vain.
func (o *Overlay[V]) Read(ctx context.Context, prefix, key string) (*Set[V], *watchcache.Snapshot[V], error) {
	set := o.Load() // before the state, see the package comment
	state := o.options.State()
	if set == nil || set.known(state, prefix, key, set.number) {
		return set.over(state, prefix, key), state, nil
	}
	r := reading[V]{overlay: o, prefix: prefix, key: key, began: set.number, base: set, restored: state.Restored()}
	return r.wait(ctx)
}

// known reports whether nothing has to be waited for or asked, by a read that began when the newest entry had a number.
func (s *Set[V]) known(state *watchcache.Snapshot[V], prefix, key string, began uint64) bool {
	return floorPassed(s.floor, state) && s.doubted(state, prefix, key, began) == nil && s.waiting(state, prefix, key) == nil
}

// over returns what a read gets of known entries.
func (s *Set[V]) over(state *watchcache.Snapshot[V], prefix, key string) *Set[V] {
	if s == nil {
		return nil
	}
	if s = s.deny(state, prefix, key); key == "" && !s.applies(state, prefix) {
		return nil
	}
	return s
}

// reading is a read that waits. What is written while it does need not be in it: so it ends, however much that
// is.
type reading[V any] struct {
	overlay     *Overlay[V]
	prefix, key string
	began       uint64               // the number of the newest entry when it began
	base        *Set[V]              // when it began, or when the server had answered what was in doubt then
	restored    int                  // how often the source had been restored when it began
	answers     map[string]*Entry[V] // to questions that were asked after it began
	late        time.Time            // when it has waited long enough for the watch; zero until it does
}

func (r *reading[V]) wait(ctx context.Context) (*Set[V], *watchcache.Snapshot[V], error) {
	prefix, key := r.prefix, r.key
	for {
		set, state, known := r.look()
		if known {
			return set.over(state, prefix, key), state, nil
		}
		var answers []*Entry[V]
		err := ctx.Err()
		if err != nil {
			err = context.Cause(ctx)
		} else if !floorPassed(set.floor, state) {
			err = r.reach(ctx, set.floor)
		} else if d := set.doubted(state, prefix, key, r.began); d != nil {
			answers, err = r.dispel(ctx, d, prefix, key)
			if now := r.overlay.Load(); now != nil {
				r.base = now
			}
		} else if e := set.waiting(state, prefix, key); e != nil {
			answers, err = r.settle(ctx, e, set)
		}
		if err != nil {
			return nil, nil, err
		}
		r.take(answers)
	}
}

// look returns the newest state and the entries as r gets them, and whether they are known.
func (r *reading[V]) look() (set *Set[V], state *watchcache.Snapshot[V], known bool) {
	set = r.overlay.Load() // before the state
	state = r.overlay.options.State()
	set = r.asOfBegin(set, state)
	return set, state, set == nil || set.known(state, r.prefix, r.key, r.began)
}

// take keeps the answers to questions that were asked after r began.
func (r *reading[V]) take(answers []*Entry[V]) {
	for _, e := range answers {
		if known := r.answers[e.Key]; e.of < r.began || known != nil && known.of >= e.of {
			continue
		}
		if r.answers == nil {
			r.answers = map[string]*Entry[V]{}
		}
		r.answers[e.Key] = e
	}
}

// asOfBegin returns what r may show of the entries for the keys with the prefix. In the place of those of which the
// content is not known comes an answer, or what base has if the entry was noted since: that is not enough if the object
// is in doubt there. What came in doubt since does not concern r either. If the source was restored meanwhile, base says
// nothing any more.
func (r *reading[V]) asOfBegin(set *Set[V], state *watchcache.Snapshot[V]) *Set[V] {
	if set == nil {
		return nil
	}
	with, same := *set, state.Restored() == r.restored
	if same && len(set.doubts) > 0 {
		with.doubts = r.base.doubts
	}
	for e := range set.waitingWith(state, r.prefix) {
		instead := r.answers[e.Key]
		if instead == nil {
			if !same || e.number <= r.base.number || e.history > r.restored || r.base.doubted(state, e.Key, e.Key, r.began) != nil {
				continue
			}
			instead = r.base.entries.get(e.Key)
		}
		if with.entries == set.entries {
			with.entries = set.only(r.prefix).entries
		}
		if instead == nil {
			with.entries.remove(e.Key)
		} else {
			with.entries.set(instead)
		}
	}
	return &with
}

// WaitFor waits until the newest state has reached a revision, for at most ten seconds. The error is
// a *BehindError.
func WaitFor[V any](ctx context.Context, state func() *watchcache.Snapshot[V], wait func(context.Context, uint64) error, revision uint64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitFor, errLate)
	defer cancel()
	if err := wait(ctx, revision); err != nil {
		return &BehindError{Wanted: revision, Reached: state().Revision(), Cause: err}
	}
	return nil
}

// waitFor is WaitFor for a read, which waits no longer in all.
func (r *reading[V]) waitFor(ctx context.Context, revision uint64, history int) error {
	if r.late.IsZero() {
		r.late = time.Now().Add(waitFor)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, r.late, errLate)
	defer cancel()
	options := &r.overlay.options
	wait := func(ctx context.Context, revision uint64) error { return options.Wait(ctx, revision, history) }
	return WaitFor(ctx, options.State, wait, revision)
}

// settle waits until the watch has passed e, or the server was asked. A list waits for the watch alone
// if there was no room for the object: there may be many of these, and an answer would not have room
// either.
func (r *reading[V]) settle(ctx context.Context, e *Entry[V], set *Set[V]) (answers []*Entry[V], err error) {
	o := r.overlay
	if state := o.options.State(); r.key == "" && e.full && !o.lasts(state, e) {
		if o.passed(state, e) {
			return nil, nil
		}
		return nil, r.waitFor(ctx, max(e.Revision, state.Revision()+1), e.history)
	}
	late, cancel := context.WithDeadline(ctx, e.noted.Add(patience))
	defer cancel()
	for e.Outcome != Unknown {
		state := o.options.State()
		if o.passed(state, e) {
			return nil, nil
		}
		if err := o.options.Wait(late, state.Revision()+1, 0); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, o.behind(ctx, e.Revision)
	}
	if set.many(o.options.State(), r.prefix) {
		return r.askAll(ctx, r.prefix)
	}
	return r.ask(ctx, e.Key)
}

// behind returns the error of a read that ends with ctx.
func (o *Overlay[V]) behind(ctx context.Context, wanted uint64) error {
	return &BehindError{Wanted: wanted, Reached: o.options.State().Revision(), Cause: context.Cause(ctx)}
}

// once does f, once for all that wait for it under a name, and returns its answers when that is done or ctx
// ends. f goes on when ctx has ended: others wait for it, or come back for it. The read does not wait for what it
// does not need any more, as f may have to wait for its turn: then there are no answers.
func (r *reading[V]) once(ctx context.Context, name string, f func(context.Context) ([]*Entry[V], error)) ([]*Entry[V], error) {
	o := r.overlay
	done := o.asking.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		stop := context.AfterFunc(o.life, cancel)
		defer stop()
		var answers []*Entry[V]
		err := o.patient.ask(ctx, name, func(ctx context.Context) (err error) {
			answers, err = f(ctx)
			return err
		})
		return answers, err
	})
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case result := <-done:
			if result.Err != nil {
				return nil, &UnansweredError{Cause: result.Err}
			}
			return result.Val.([]*Entry[V]), nil
		case <-look.C:
			if o.life.Err() != nil {
				continue // the question ends with the overlay
			}
			if _, _, known := r.look(); known {
				return nil, nil
			}
		case <-ctx.Done():
			return nil, o.patient.gaveUp(name, context.Cause(ctx))
		}
	}
}
