// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// patience is how long after a write a read waits for the watch, before it asks the server, if the revision of
	// the write is known and its object is not: a watch that works needs some milliseconds.
	patience = 200 * time.Millisecond
	// lookEvery is how often a read that waits for an answer looks whether the watch was faster.
	lookEvery = 100 * time.Millisecond
	// askEach is for how many keys, also of an ambiguous prefix, the server is asked one by one. More are listed.
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
	s := w.loaded() // before the state, see the package comment
	v := s.view(w.options.State(), of)
	if len(v.open(of)) == 0 {
		return v, nil
	}
	r := reading[V]{w: w, of: of, began: s.number}
	return r.run(ctx)
}

// reading is a read that waits.
type reading[V any] struct {
	w       *Writes[V]
	of      Target
	began   uint64       // how many notes there were
	answers []*answer[V] // to its questions
	late    time.Time    // until when it waits for the watch; zero until it does
}

// look returns what r sees now, and for what it has to wait.
func (r *reading[V]) look() (v View[V], open []*statement[V]) {
	s := r.w.loaded() // before the state
	if len(r.answers) > 0 {
		s = s.only(r.of)
		for _, a := range r.answers {
			s.learn(a)
		}
	}
	v = s.view(r.w.options.State(), r.of)
	return v, v.open(r.of)
}

func (r *reading[V]) run(ctx context.Context) (View[V], error) {
	for {
		v, open := r.look()
		if len(open) == 0 {
			return v, nil
		}
		if err := r.settle(ctx, v.at, open); err != nil {
			return v, err
		}
	}
}

// settle makes objects, waits for the watch, or asks the server.
func (r *reading[V]) settle(ctx context.Context, at uint64, open []*statement[V]) error {
	ambiguous := slices.DeleteFunc(slices.Clone(open), func(k *statement[V]) bool { return k.make != nil })
	switch {
	case len(ambiguous) == 0:
		for _, k := range open {
			if err := r.make(ctx, k); err != nil {
				return err
			}
		}
	case ctx.Err() != nil:
		return &UnansweredError{Cause: context.Cause(ctx)}
	case r.waits(ctx, at, ambiguous):
	default:
		if len(r.answers) > 0 { // they did not suffice: much is written meanwhile
			pause, end := context.WithTimeout(ctx, lookEvery)
			<-pause.Done()
			end()
		}
		for _, of := range r.questions(ambiguous) {
			if err := r.ask(ctx, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// questions returns for what to ask the server: a few keys one by one, or else all that is read. After some keys of a prefix,
// it is the prefix.
func (r *reading[V]) questions(ambiguous []*statement[V]) []Target {
	var keys []Target
	of, prefix := r.of, false
	for _, k := range ambiguous {
		if keys = append(keys, k.Target); k.All {
			prefix = true
			if k.asked >= askEach && k.covers(of) {
				of = k.Target
			}
		}
	}
	if prefix || len(keys) > askEach {
		return []Target{of}
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

// ask asks the server about a target, once for all that do.
func (r *reading[V]) ask(ctx context.Context, of Target) error {
	name := "key " + of.Key
	if of.All {
		name = "list " + of.Key
	}
	value, err := r.once(ctx, name, func(ctx context.Context) (any, error) { return r.w.ask(ctx, of) })
	if err != nil {
		return &UnansweredError{Cause: err}
	}
	if a, _ := value.(*answer[V]); a != nil {
		mine := *a
		if a.asked >= r.began { // r need not show what was noted since, so that it ends however much is
			mine.asked = math.MaxUint64
		}
		r.answers = append(r.answers, &mine)
	}
	return nil
}

// make makes the object of a response, once for all that need it.
func (r *reading[V]) make(ctx context.Context, k *statement[V]) error {
	_, err := r.once(ctx, fmt.Sprint("object ", k.number), func(context.Context) (any, error) { return nil, r.w.make(k) })
	return err
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
			if _, open := r.look(); len(open) == 0 {
				return nil, nil
			}
		case <-ctx.Done():
			return nil, r.w.pauses.gaveUp(context.Cause(ctx))
		}
	}
}

// make makes the object of a response.
func (w *Writes[V]) make(k *statement[V]) error {
	if now := w.loaded().get(k.Key); now == nil || now.number != k.number || now.make == nil {
		return nil // another read has
	}
	made, err := k.make()
	if err != nil && !errors.Is(err, ErrNotWhole) {
		return err
	}
	next := *k
	next.object = object[V]{revision: k.revision, uid: k.uid, before: k.before}
	switch {
	case err != nil:
		next.outcome = Ambiguous
	case made.Held:
		next.value, next.bytes, next.before = made.Value, w.options.Size(made.Value), nil
	default:
		if next.outcome, next.lost = Hidden, made.Lost; made.Lost == nil {
			next.before = nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now.get(k.Key); now != nil && now.number == k.number && now.make != nil {
		w.now.store(next)
		w.publishLocked(w.options.State())
	}
	return nil
}
