// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"errors"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// The names of the flights that are not for one key. No key begins so.
const (
	listFlight  = "\x00"
	floorFlight = "\x00\x00"
)

// question is what was there when the server was asked.
type question[V any] struct {
	set    *Set[V]
	before *watchcache.Snapshot[V]
}

func (o *Overlay[V]) question() question[V] { return question[V]{o.Load(), o.options.State()} }

// dispel asks the server about a doubt that concerns a read of key, or of all keys with prefix if key is
// empty.
func (o *Overlay[V]) dispel(ctx context.Context, d *doubt, prefix, key string) error {
	if key != "" && len(d.keys) < askEach {
		return o.ask(ctx, key)
	}
	return o.askAll(ctx, d.toList(prefix))
}

// ask asks the server for the object under a key, once for all that wait.
func (o *Overlay[V]) ask(ctx context.Context, key string) error {
	return o.once(ctx, key, func(ctx context.Context) error {
		q := o.question()
		if q.set.waiting(q.before, key, key) == nil && q.set.doubted(q.before, key, key) == nil {
			return nil // another read has asked, or the watch has passed it
		}
		answer, err := o.options.Ask(ctx, key)
		if answer.Item.Key = key; err == nil {
			o.answered(q, answer)
		}
		return o.finish(q, key, key, answer.Revision, err)
	})
}

// askAll asks the server for the objects with prefix whose content is not known, and for all if they are in
// doubt.
func (o *Overlay[V]) askAll(ctx context.Context, prefix string) error {
	return o.once(ctx, listFlight+prefix, func(ctx context.Context) error {
		q := o.question()
		doubted := q.set.doubted(q.before, prefix, "") != nil
		missing := q.keys(prefix, doubted)
		if len(missing) == 0 && !doubted {
			return nil
		}
		revision, err := o.options.List(ctx, prefix, func(a Answer[V]) {
			if _, asked := missing[a.Item.Key]; asked || doubted {
				delete(missing, a.Item.Key)
				o.answered(q, a)
			}
		})
		if err == nil {
			for key := range missing {
				o.answered(q, Answer[V]{Item: watchcache.Item[V]{Key: key}, Revision: revision})
			}
		}
		return o.finish(q, prefix, "", revision, err)
	})
}

// keys returns the keys with prefix whose content is not known, or that of all objects and entries.
func (q question[V]) keys(prefix string, all bool) map[string]struct{} {
	keys := map[string]struct{}{}
	if !all {
		for e := range q.set.unknown(q.before, prefix) {
			keys[e.Key] = struct{}{}
		}
		return keys
	}
	for item := range q.before.Items(prefix, "") {
		keys[item.Key] = struct{}{}
	}
	for e := range q.set.entries.with(prefix, "") {
		keys[e.Key] = struct{}{}
	}
	return keys
}

// answered puts an answer of the server in the place of the entry for its key, unless something newer was
// noted. If the answer is older than the state before the question, the source was restored from a backup.
func (o *Overlay[V]) answered(q question[V], a Answer[V]) {
	if a.Revision == 0 {
		return // it cannot be compared
	}
	next := &Entry[V]{Key: a.Item.Key, Outcome: Hidden, Revision: a.Revision, Lost: a.Lost}
	if a.Found {
		next = &Entry[V]{Key: a.Item.Key, Outcome: Shown, Revision: a.Item.Revision, Value: a.Item.Value, UID: o.options.UID(a.Item.Value)}
	}
	next.of = q.set.number
	o.mu.Lock()
	defer o.mu.Unlock()
	if next.history = o.history; a.Revision < q.before.Revision() {
		next.history = max(o.history, q.before.Restored()+1)
	}
	if now := o.entries.get(next.Key); o.life.Err() != nil || now != nil && now.number > q.set.number {
		return
	}
	o.putLocked(next) // also where there is no entry any more: what was passed is not what was asked for
	o.publishLocked()
}

// finish ends a question for key or, if that is empty, for all keys with prefix, that was answered at a
// revision or with an error. If the server does not say how far it is, the watch is believed.
func (o *Overlay[V]) finish(q question[V], prefix, key string, revision uint64, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil && revision > 0:
		o.answeredDoubtsLocked(q, prefix, key, revision)
	case err == nil, errors.Is(err, ErrNoRevision):
		o.changeDoubtsLocked(func(d *doubt) *doubt {
			if d.covers(prefix, key) {
				return nil
			}
			return d
		})
		for asked := range q.keys(prefix, false) {
			if (key == "" || key == asked) && o.entries.get(asked) == q.set.entries.get(asked) {
				o.removeLocked(asked)
			}
		}
	default:
		return err
	}
	o.publishLocked()
	return nil
}
