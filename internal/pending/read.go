// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// patience is how long after a write a read waits for the watch, before it asks the server, if the revision of
	// the write is known and its object is not: a watch that works needs some milliseconds.
	patience = 200 * time.Millisecond
	// lookEvery is how often a read that waits for an answer looks whether the watch was faster.
	lookEvery = 100 * time.Millisecond
	// waitFor bounds the wait for a revision. Watches that work are seconds behind at most, unless
	// nothing is written: then a bookmark comes each minute, which is too long to wait for.
	waitFor = 10 * time.Second
	// askEach is for how many keys the server is asked one by one. More are listed.
	askEach = 8
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

// UnansweredError is the error of a read after an ambiguous write, if the server does not say what came of it.
type UnansweredError struct {
	Cause error // of the question, or for which the read did not wait for the answer
}

// Error implements error.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("what became of a write is not known, and the server does not say: %v", e.Cause)
}

// Unwrap returns the cause.
func (e *UnansweredError) Unwrap() error { return e.Cause }

var errLate = fmt.Errorf("it did not come within %v", waitFor)

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

// Read returns what a read of a target sees. It waits for what is ambiguous, and for the functions of the user that
// make objects of responses. The error says for what it waited in vain.
func (w *Writes[V]) Read(ctx context.Context, of Target) (View[V], error) {
	s := w.set.Load() // before the state, see the package comment
	state := w.options.State()
	if s == nil {
		return View[V]{base: state, state: state, at: pointOf(state)}, nil
	}
	if v := s.view(state, of, &w.options); !s.anyOpen(&v, of) && !v.anyUnmade(of) {
		return v, nil
	}
	r := reading[V]{w: w, of: of, began: s.number}
	return r.run(ctx)
}

// anyOpen reports whether what is known of the keys of a target is less than their minimum revision.
func (s *set[V]) anyOpen(v *View[V], of Target) bool {
	if s.open == 0 && len(s.prefixes) == 0 {
		return false // without a look at the entries
	}
	return len(s.openOf(v, of, nil)) > 0
}

// openOf returns what is ambiguous of the keys of a target, and settled neither by what is known of them nor by answers.
func (s *set[V]) openOf(v *View[V], of Target, settled func(*ambiguous[V], Target) bool) (open []*ambiguous[V]) {
	e, _ := s.entries.get(of.Key)
	at := v.at
	if !of.All {
		at = v.knownAt(e)
	}
	for _, a := range s.prefixes {
		if a.meets(of) && !a.settledBy(at) && (settled == nil || !settled(a, of)) {
			open = append(open, a)
		}
	}
	if s.open == 0 {
		return open
	}
	for key, e := range v.entries.with(of, "") {
		a := e.ambiguous
		if a == nil || a.settledBy(v.knownAt(e)) {
			if e.known == nil || !e.known.content.Load().missing || !v.lies(key, e) {
				continue
			}
			a = keyed[V]{key, e}.missing()
		}
		if settled == nil || !settled(a, a.Target) {
			open = append(open, a)
		}
	}
	return open
}

// reading is a read that waits. It needs one answer to a question that was asked after it began, so that it ends
// however much is written meanwhile.
type reading[V any] struct {
	w       *Writes[V]
	of      Target
	began   uint64 // how many notes there were
	answers []*answered[V]
	asked   bool
	late    time.Time // until when it waits for the watch; zero until it does
}

// look returns what r sees now, and what it must wait for.
func (r *reading[V]) look() (v View[V], open []*ambiguous[V]) {
	s := r.w.set.Load() // before the state
	state := r.w.options.State()
	if s == nil {
		s = &set[V]{}
	}
	v = s.view(state, r.of, &r.w.options)
	for _, a := range r.answers {
		r.add(&v, a)
	}
	return v, s.openOf(&v, r.of, r.settled)
}

// add adds an answer to what r sees, unless something newer is there.
func (r *reading[V]) add(v *View[V], a *answered[V]) {
	if a.list != nil && a.of.covers(r.of) && v.at.before(a.at) {
		v.base, v.lost, v.at = a.list, a.lost, a.at
	}
	var own entries[V]
	for _, found := range a.found {
		e, _ := v.entries.get(found.key)
		if k := e.known; !r.of.covers(Target{Key: found.key}) ||
			k != nil && !k.at.before(a.at) && !(k.content.Load().missing && r.enough(a, k.number)) {
			continue
		}
		if own.tree == nil { // the tree of before is read by others, and to copy it would write to it
			own = newEntries[V]()
			for key, e := range v.entries.with(r.of, "") {
				own.tree.Set(keyed[V]{key, e})
			}
			v.entries = own
		}
		found.ambiguous = e.ambiguous
		own.tree.Set(found)
	}
}

// enough reports whether an answer was asked for after the note with a number, or after r began.
func (r *reading[V]) enough(a *answered[V], number uint64) bool {
	return a.asked >= min(number, r.began)
}

// settled reports whether an answer says what became of the keys of a target after the write of a.
func (r *reading[V]) settled(a *ambiguous[V], of Target) bool {
	return slices.ContainsFunc(r.answers, func(answer *answered[V]) bool {
		return answer.of.covers(of) && r.enough(answer, a.number)
	})
}

func (r *reading[V]) run(ctx context.Context) (v View[V], err error) {
	for {
		v, open := r.look()
		switch {
		case len(open) > 0:
			if ctx.Err() != nil {
				return v, &UnansweredError{Cause: context.Cause(ctx)}
			}
			if r.waits(ctx, open) {
				continue
			}
			err = r.ask(ctx, open)
		case v.anyUnmade(r.of):
			err = r.make(ctx, &v)
		default:
			return v, nil
		}
		if err != nil {
			return v, err
		}
	}
}

// waits waits a moment for the watch, if no question was answered and the minimum is known all the same, and reports whether there was a reason to.
func (r *reading[V]) waits(ctx context.Context, open []*ambiguous[V]) bool {
	var minimum point
	for _, a := range open {
		if !a.minimum.known() || a.asked != 0 {
			return false
		}
		minimum = latest(minimum, a.minimum)
		if until := a.noted.Add(patience); r.late.IsZero() || r.late.After(until) {
			r.late = until
		}
	}
	if !time.Now().Before(r.late) || !pointOf(r.w.options.State()).before(minimum) {
		return false
	}
	ctx, cancel := context.WithDeadline(ctx, r.late)
	defer cancel()
	_ = r.w.options.Wait(ctx, minimum.revision, minimum.restored) // whatever came, it is looked at
	return true
}

// ask asks the server about what is ambiguous: about each key if there are few, and otherwise for a list.
func (r *reading[V]) ask(ctx context.Context, open []*ambiguous[V]) error {
	list := r.of
	for _, a := range open {
		if a.asked >= askEach && a.covers(r.of) {
			return r.question(ctx, a.Target)
		}
	}
	if r.of.All && !r.asked && len(open) <= askEach && !open[0].All {
		r.asked = true // what is ambiguous after these is listed
		for _, a := range open {
			if err := r.question(ctx, a.Target); err != nil {
				return err
			}
		}
		return nil
	}
	return r.question(ctx, list)
}

// question asks the server about a target, once for all that do.
func (r *reading[V]) question(ctx context.Context, of Target) error {
	name := "key " + of.Key
	if of.All {
		name = "list " + of.Key
	}
	value, err := r.once(ctx, name, func(ctx context.Context) (any, error) { return r.w.ask(ctx, of) })
	if answer, ok := value.(*answered[V]); ok && answer != nil {
		r.answers = append(r.answers, answer)
	}
	if err != nil {
		return &UnansweredError{Cause: err}
	}
	return nil
}

// once calls f, once for all that wait for it under a name, in a goroutine of its own. It goes on when ctx has ended,
// because others wait for it or come back for it. r does not wait for what it does not need any more.
func (r *reading[V]) once(ctx context.Context, name string, f func(context.Context) (any, error)) (any, error) {
	done := r.w.flights.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(r.w.life, cancel)()
		return f(ctx)
	})
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case result := <-done:
			return result.Val, result.Err
		case <-look.C:
			if v, open := r.look(); len(open) == 0 && !v.anyUnmade(r.of) && r.w.life.Err() == nil {
				return nil, nil
			}
		case <-ctx.Done():
			return nil, r.w.pauses.gaveUp(context.Cause(ctx))
		}
	}
}

// anyUnmade reports whether there is an object in a target that a function of the user has to make.
func (v *View[V]) anyUnmade(of Target) bool {
	for key, e := range v.entries.with(of, "") {
		if e.known != nil && e.known.content.Load().make != nil && v.lies(key, e) {
			return true
		}
	}
	return false
}

// make makes the objects of responses in the keys of r.
func (r *reading[V]) make(ctx context.Context, v *View[V]) error {
	for _, e := range v.entries.all(r.of) {
		if e.known == nil || e.known.content.Load().make == nil || !v.lies(e.key, e.entry) {
			continue
		}
		name := fmt.Sprint("object ", e.known.number)
		if _, err := r.once(ctx, name, func(context.Context) (any, error) { return nil, r.w.make(e) }); err != nil {
			return err
		}
	}
	return nil
}

// make makes the object of an entry.
func (w *Writes[V]) make(e keyed[V]) error {
	c := e.known.content.Load()
	if c.make == nil {
		return nil // another read has
	}
	made, err := c.make()
	if err != nil && !errors.Is(err, ErrNotWhole) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next := content[V]{made: made, missing: err != nil}
	if next.missing || made.Lost != nil {
		next.before = c.before
	}
	e.known.content.Store(&next)
	now, there := w.now.entries.get(e.key)
	if !there || now.known != e.known {
		return nil
	}
	w.setLocked(e.key, now)
	w.publishLocked(w.options.State())
	return nil
}
