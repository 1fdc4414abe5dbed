// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// patience is how long after a write a read waits for the watch, before it asks the server, if the revision of
	// the write is known and its object is not: a watch that works needs some milliseconds.
	patience = 200 * time.Millisecond
	// lookEvery is how often a read that waits for an answer looks whether the watch was faster.
	lookEvery = 100 * time.Millisecond
	// askEach is for how many keys the server is asked one by one. For more it is asked for all that is read.
	askEach = 8
)

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

// Read returns what a read of a target sees. It waits for what is ambiguous, and for the functions of the user that
// make objects of responses. The error says for what it waited in vain.
func (w *Writes[V]) Read(ctx context.Context, of Target) (View[V], error) {
	v, open := w.look(of)
	if len(open) == 0 {
		return v, nil
	}
	r := reading[V]{w: w, of: of, began: v.set.number}
	for ; len(open) > 0; v, open = w.look(of) {
		if seen, err := r.settle(ctx, &v, open); err != nil {
			return v, err
		} else if seen != nil {
			return *seen, nil
		}
	}
	return v, nil
}

// reading is a read that waits.
type reading[V any] struct {
	w     *Writes[V]
	of    Target
	began uint64    // how many notes there were
	asked bool      // it has asked, and that did not suffice
	late  time.Time // until when it waits for the watch; zero until it does
}

// look returns what a read of a target sees now, and for what it has to wait.
func (w *Writes[V]) look(of Target) (v View[V], open []*statement[V]) {
	s := w.loaded() // before the state, see the package comment
	v = s.view(w.options.State(), of)
	return v, v.open(of)
}

// settle makes objects, waits for the watch, or asks the server. It returns what the read sees, or nil if it has to look
// again. An answer about all that is read, to a question that was asked after the read began, is what the read sees, however
// much is written meanwhile.
func (r *reading[V]) settle(ctx context.Context, v *View[V], open []*statement[V]) (*View[V], error) {
	ambiguous := slices.DeleteFunc(slices.Clone(open), func(k *statement[V]) bool { return k.make != nil })
	if len(ambiguous) == 0 {
		return r.make(ctx, v, open)
	}
	if ctx.Err() != nil {
		return nil, &UnansweredError{Cause: context.Cause(ctx)}
	}
	if !r.asked && r.waits(ctx, v.at, ambiguous) {
		return nil, nil
	}
	for _, of := range r.questions(ambiguous) {
		a, err := r.ask(ctx, of)
		if err != nil || a == nil {
			return nil, err
		}
		if a.asked >= r.began && of.covers(r.of) {
			s := r.w.loaded() // before the state
			seen := a.view(s, r.w.options.State())
			return &seen, nil
		}
	}
	r.asked = true
	return nil, nil
}

// questions returns for what to ask the server: a few keys one by one, or else all that is read, or a prefix that has it.
func (r *reading[V]) questions(ambiguous []*statement[V]) []Target {
	var keys []Target
	all, only := r.of, r.asked || len(ambiguous) > askEach
	for _, k := range ambiguous {
		switch keys = append(keys, k.Target); {
		case k.All && k.answered && !r.of.All: // there was no room for the list
			return []Target{r.of}
		case k.covers(all):
			all = k.Target
		}
		only = only || k.All
	}
	if only {
		return []Target{all}
	}
	return keys
}

// waits waits a moment for the watch, if responses have told the minimum revisions, and reports whether it did.
func (r *reading[V]) waits(ctx context.Context, at uint64, ambiguous []*statement[V]) bool {
	minimum := uint64(0)
	for _, k := range ambiguous {
		if k.at == unknown || k.answered {
			return false
		}
		minimum = max(minimum, k.at)
		if until := k.noted.Add(patience); r.late.IsZero() || until.Before(r.late) {
			r.late = until
		}
	}
	if at >= minimum || !time.Now().Before(r.late) {
		return false
	}
	ctx, cancel := context.WithDeadline(ctx, r.late)
	defer cancel()
	_ = r.w.options.Wait(ctx, minimum, r.w.loaded().restored) // whatever came, it is looked at
	return true
}

// ask asks the server about a target, once for all that do. The answer is nil if r does not need it any more.
func (r *reading[V]) ask(ctx context.Context, of Target) (*answer[V], error) {
	name := "key " + of.Key
	if of.All {
		name = "list " + of.Key
	}
	value, err := r.once(ctx, name, func(ctx context.Context) (any, error) { return r.w.ask(ctx, of) })
	if err != nil {
		return nil, &UnansweredError{Cause: err}
	}
	a, _ := value.(*answer[V])
	return a, nil
}

// make makes the objects of responses, once for all that need them: v with these is what the read sees. It returns nil if a
// response did not have the whole object, or r does not need it any more.
func (r *reading[V]) make(ctx context.Context, v *View[V], open []*statement[V]) (*View[V], error) {
	s := v.set.known(r.of)
	s.setPrefixes(v.set.prefixes)
	for _, k := range open {
		value, err := r.once(ctx, fmt.Sprint("object ", k.number), func(context.Context) (any, error) { return r.w.make(k) })
		if err != nil || value == nil || value.(*statement[V]).open() {
			return nil, err
		}
		s.store(*value.(*statement[V]))
	}
	seen := s.view(r.w.options.State(), r.of)
	return &seen, nil
}

// once calls f, once for all that wait for it under a name, in a goroutine of its own. It goes on when ctx has ended,
// because others wait for it or come back for it. r does not wait for what it does not need any more: then the value is
// nil.
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
			if _, open := r.w.look(r.of); len(open) == 0 {
				return nil, nil
			}
		case <-ctx.Done():
			return nil, r.w.pauses.gaveUp(context.Cause(ctx))
		}
	}
}

// make makes the object of a response, and returns what is known then.
func (w *Writes[V]) make(k *statement[V]) (*statement[V], error) {
	if now := w.loaded().get(k.Key); now != nil && now.number == k.number && now.make == nil {
		return now, nil // another read has
	}
	made, err := k.make()
	if err != nil && !errors.Is(err, ErrNotWhole) {
		return nil, err
	}
	next := *k
	next.object = object[V]{revision: k.revision, uid: k.uid}
	switch {
	case err != nil:
		next.outcome = Ambiguous
	case made.Held:
		next.value, next.bytes = made.Value, w.options.Size(made.Value)
	default:
		next.outcome, next.lost = Hidden, made.Lost
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now.get(k.Key); now != nil && now.number == k.number && now.make != nil {
		w.now.store(next)
		w.publishLocked(w.options.State())
	}
	return &next, nil
}
