// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"cmp"
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

// doubted reports whether a read that begins with the question must ask because of a doubt.
func (q question[V]) doubted(prefix, key string) bool {
	return q.set != nil && q.set.doubted(q.before, prefix, key, q.set.number) != nil
}

func (o *Overlay[V]) question() question[V] { return question[V]{o.Load(), o.options.State()} }

// dispel asks the server about a doubt that concerns a read of key, or of all keys with prefix if key is
// empty.
func (r *reading[V]) dispel(ctx context.Context, d *doubt, prefix, key string) ([]*Entry[V], error) {
	if key != "" && len(d.keys) < askEach {
		return r.ask(ctx, key)
	}
	return r.askAll(ctx, d.toList(prefix))
}

// ask asks the server for the object under a key, once for all that wait.
func (r *reading[V]) ask(ctx context.Context, key string) ([]*Entry[V], error) {
	o := r.overlay
	return r.once(ctx, key, func(ctx context.Context) (answers []*Entry[V], err error) {
		q := o.question()
		if q.set.waiting(q.before, key, key) == nil && !q.doubted(key, key) {
			return nil, errNothingToAsk // another read has asked, or the watch has passed it
		}
		answer, err := o.options.Ask(ctx, key)
		if answer.Item.Key = key; err == nil && answer.Revision > 0 {
			e, _ := o.answered(q, answer, false)
			answers = append(answers, e)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		return answers, o.finishLocked(q, key, key, answer.Revision, err)
	})
}

// askAll asks the server for the objects with prefix whose content is not known, and returns the answers. If they
// are in doubt, it asks for all, and returns those of them for which something newer was noted meanwhile.
func (r *reading[V]) askAll(ctx context.Context, prefix string) ([]*Entry[V], error) {
	o := r.overlay
	return r.once(ctx, listFlight+prefix, func(ctx context.Context) (answers []*Entry[V], err error) {
		q := o.question()
		doubted := q.doubted(prefix, "")
		missing := q.keys(prefix, doubted)
		if len(missing) == 0 && !doubted {
			return nil, errNothingToAsk
		}
		take := func(e *Entry[V], kept bool) {
			if !doubted || !kept {
				answers = append(answers, e)
			}
		}
		had := map[string]struct{}{}
		revision, err := o.options.List(ctx, prefix, func(a Answer[V]) {
			if _, asked := missing[a.Item.Key]; !asked && !doubted {
				return
			}
			had[a.Item.Key] = struct{}{}
			if a.Revision > 0 { // otherwise it cannot be compared
				take(o.answered(q, a, doubted))
			}
		})
		o.mu.Lock()
		defer o.mu.Unlock()
		if err == nil && revision > 0 {
			if doubted {
				o.answeredSinceLocked(q, prefix, missing)
			}
			for key := range missing {
				if _, there := had[key]; !there {
					take(o.answeredLocked(q, Answer[V]{Item: watchcache.Item[V]{Key: key}, Revision: revision}, doubted))
				}
			}
		}
		return answers, o.finishLocked(q, prefix, "", revision, err)
	})
}

// answeredSinceLocked adds to keys those with prefix for which another question was answered since q, that was asked
// no later: if a list does not have them, it may be the newer answer.
func (o *Overlay[V]) answeredSinceLocked(q question[V], prefix string, keys map[string]struct{}) {
	for e := range o.entries.with(prefix, "") {
		if e.number > q.set.number && e.of <= q.set.number {
			keys[e.Key] = struct{}{}
		}
	}
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

// answered is answeredLocked for one answer.
func (o *Overlay[V]) answered(q question[V], a Answer[V], listed bool) (next *Entry[V], kept bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.publishLocked()
	return o.answeredLocked(q, a, listed)
}

// answeredLocked returns the entry of an answer, and puts it in the place of the entry for its key, unless something
// newer is known: then it was not kept. If the answer is older than the state before the question, the source was
// restored from a backup. Listed says that it is of a list that also tells which objects there are not, see listing.
func (o *Overlay[V]) answeredLocked(q question[V], a Answer[V], listed bool) (next *Entry[V], kept bool) {
	next = &Entry[V]{Key: a.Item.Key, Outcome: Hidden, Revision: a.Revision}
	switch {
	case a.Lost != nil:
		next.Revision, next.UID, next.Lost = cmp.Or(a.Item.Revision, a.Revision), a.UID, a.Lost
	case a.Found:
		next = &Entry[V]{Key: a.Item.Key, Outcome: Shown, Revision: a.Item.Revision, Value: a.Item.Value, UID: o.options.UID(a.Item.Value)}
	}
	next.of = q.set.number
	if next.history = o.history; a.Revision < q.before.Revision() {
		next.history = max(o.history, q.before.Restored()+1)
	}
	if listed && (q.before.Restored() < next.history || a.Item.Revision > q.before.Revision()) { // as listing.since says
		next.until = a.Revision
	}
	now := o.entries.get(next.Key)
	next.follow(now)
	switch {
	case o.life.Err() != nil, now == nil && o.deniedLocked(next, a):
		return next, false
	case now != nil && now.outlasts(next, a.Revision):
		o.outlastedLocked(q, now, next, a.Revision, listed)
		return next, false
	}
	o.putLocked(next) // also where there is no entry any more: what was passed is not what was asked for
	return next, true
}

// outlasts reports whether e is newer than the entry of an answer of a revision. It is if it was noted after the
// question. If it is the answer to another one, that was asked no later, the revisions tell. If reads may have got an
// answer of after the revision already, see seen, it stays, too.
func (e *Entry[V]) outlasts(answer *Entry[V], revision uint64) bool {
	if e.of > answer.of || e.history == answer.history && revision < e.seen {
		return true
	}
	return e.number > answer.of && cmp.Or(cmp.Compare(e.history, answer.history), cmp.Compare(e.Revision, answer.Revision)) > 0
}

// outlastedLocked notes of an entry that it has outlasted the entry of an answer of a revision. Reads of before now show
// the answer as long as the content of now is not known. Those that begin from now on need an answer that is no older. An
// object that is shown, and is not there or another one in the newer answer, is not known any more.
func (o *Overlay[V]) outlastedLocked(q question[V], now, answer *Entry[V], revision uint64, listed bool) {
	longer := *now
	if listed {
		longer.until = max(now.until, revision)
	}
	if now.Outcome == Shown && now.of <= answer.of && now.Revision < answer.Revision {
		o.putLocked(&Entry[V]{Key: now.Key, Outcome: Unknown, noting: noting{until: longer.until}})
		return
	}
	comparable := max(now.history, answer.history) <= q.before.Restored()
	if (now.open() || now.Outcome == Shown) && comparable && now.seen < revision {
		longer.seen = revision
		o.noted++ // the answer to a question of before may be older
	}
	if now.open() && (now.was == nil || now.was.item.Revision <= revision) {
		longer.follow(answer)
	}
	if longer.noting != now.noting || longer.was != now.was {
		o.replaceLocked(now, &longer)
		o.fitLocked()
	}
}

// finishLocked ends a question for key or, if that is empty, for all keys with prefix, that was answered at a
// revision or with an error. If the server does not say how far it is, the watch is believed.
func (o *Overlay[V]) finishLocked(q question[V], prefix, key string, revision uint64, err error) error {
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
