// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/watchcache"
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
	if len(open) > 0 && w.waits(ctx, &v, open) {
		v, open = w.look(of)
	}
	for len(open) > 0 {
		if seen, err := w.settle(ctx, of, &v, open); seen != nil || err != nil {
			return *cmp.Or(seen, &v), err
		}
		v, open = w.look(of)
	}
	return v, nil
}

// look returns what a read of a target sees now, and for what it has to wait.
func (w *Writes[V]) look(of Target) (v View[V], open []*statement[V]) {
	s := w.set.Load() // before the state, see the package comment
	state := w.options.State()
	if s.restored < state.Restored() { // nobody has told yet
		w.note(func(now *watchcache.Snapshot[V]) { s, state = w.now.copy(), now })
	}
	v = s.view(state, of)
	return v, v.open(of)
}

// waits waits a moment for the watch, if responses have told the minimum revisions, and reports whether it did.
func (w *Writes[V]) waits(ctx context.Context, v *View[V], open []*statement[V]) bool {
	minimum, until := uint64(0), time.Now().Add(patience)
	for _, k := range open {
		minimum = max(minimum, k.minimum)
		if k.minimum > 0 && k.until.Before(until) {
			until = k.until
		}
	}
	if v.at >= minimum || !time.Now().Before(until) {
		return false
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	_ = w.options.Wait(ctx, minimum, v.set.restored) // whatever came, it is looked at
	return true
}

// settle makes objects and asks the server. It returns what the read sees: what was known when it looked, and the answers,
// however much is written meanwhile. It returns nil if the read has to look again.
func (w *Writes[V]) settle(ctx context.Context, of Target, v *View[V], open []*statement[V]) (*View[V], error) {
	w.mu.Lock()
	own := v.set.copy()
	w.mu.Unlock()
	var ambiguous []*statement[V]
	for _, k := range open {
		if k.make != nil {
			made, err := once(ctx, w, of, fmt.Sprint("object ", k.at, k.Key), func() (*known[V], error) { return w.make(k) })
			if made == nil || err != nil {
				return nil, err
			}
			next := k.with(*made)
			k = &next
			own.store(next)
		}
		if k.minimum > k.at || k.All {
			ambiguous = append(ambiguous, k)
		}
	}
	for _, question := range questions(of, ambiguous) {
		a, err := w.answer(ctx, of, question, v.set.number)
		if a == nil || err != nil {
			return nil, err
		}
		for _, k := range a.says {
			own.put(k)
		}
	}
	state := w.options.State()
	if own.restored < state.Restored() {
		return nil, nil
	}
	seen := own.view(state, of)
	return &seen, nil
}

// questions returns for what a read asks the server: for a few keys one by one, or else for all that is read. The first read of an ambiguous
// prefix asks about the prefix, once for all its keys.
func questions[V any](of Target, ambiguous []*statement[V]) (keys []Target) {
	each := len(ambiguous) <= askEach
	for _, k := range ambiguous {
		if k.All && k.minimum == unknown && k.covers(of) {
			return []Target{k.Target}
		}
		each = each && !k.All
		keys = append(keys, k.Target)
	}
	if each {
		return keys
	}
	return []Target{of}
}

// answer returns an answer about a target to a question that was asked when so many notes had been made, or later. It is nil if
// the read has to look again.
func (w *Writes[V]) answer(ctx context.Context, of, question Target, number uint64) (*answer[V], error) {
	name := fmt.Sprint("question ", question)
	for {
		a, err := once(ctx, w, of, name, func() (*answer[V], error) { return w.ask(question) })
		if err != nil {
			return nil, &UnansweredError{Cause: err}
		}
		if a == nil || a.asked >= number {
			return a, nil
		}
	}
}

// once calls f, once for all that wait for it under a name, in a goroutine of its own. It goes on when ctx has ended,
// because others wait for it or come back for it. A read of a target does not wait for what it does not need any more: then
// the value is nil.
func once[V, T any](ctx context.Context, w *Writes[V], of Target, name string, f func() (*T, error)) (*T, error) {
	done := w.flights.DoChan(name, func() (any, error) { return f() })
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case result := <-done:
			return result.Val.(*T), result.Err
		case <-look.C:
			if _, open := w.look(of); len(open) == 0 {
				return nil, nil
			}
		case <-ctx.Done():
			return nil, w.gaveUp(context.Cause(ctx))
		}
	}
}

// make makes the object of a response, and returns what is known then: nothing if the response does not have the whole object.
func (w *Writes[V]) make(k *statement[V]) (*known[V], error) {
	if now := w.set.Load().get(k.Key); now != nil && now.at == k.at && now.make == nil {
		return &now.known, nil // another read has
	}
	made, err := k.make()
	next := k.known
	switch next.make, next.bytes = nil, 0; {
	case errors.Is(err, ErrNotWhole):
		next = known[V]{}
	case err != nil:
		return nil, err
	case made.Held:
		next.item.Value, next.bytes = made.Value, w.options.Size(made.Value)
	default:
		next.outcome, next.lost = note.Hidden, made.Lost
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now.get(k.Key); now != nil && now.at == k.at && now.make != nil {
		w.now.store(now.with(next))
		w.publishLocked(w.options.State())
	}
	return &next, nil
}
