// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Answer is what the server says of the objects of a target: it has no others at Revision.
type Answer[V any] struct {
	Revision uint64
	Items    []watchcache.Item[V]
	Lost     []Lost
}

// Lost is an object that the server has, and the cache cannot hold.
type Lost struct {
	Key string
	UID types.UID
	Err error
}

// ErrNoRevision is what Ask returns if the answer of the server has no revision: then there is nothing to
// compare with the watch, which is believed.
var ErrNoRevision = errors.New("the resource version of the list is no positive number")

// answer is what is learned from a question.
type answer[V any] struct {
	of       Target
	revision uint64 // 0 if the server does not say it
	restored int
	asked    uint64         // how many notes there were then
	says     []statement[V] // about the key; or the list of the prefix, and the objects that the cache cannot hold
}

// view returns what a read of the target of a sees: the answer, and what a set knows of its keys. A list of before says nothing.
func (a *answer[V]) view(now *set[V], state *watchcache.Snapshot[V]) View[V] {
	s := now.known(a.of)
	if s.restored != a.restored { // of another history
		s = newSet(now.options)
		s.restored = a.restored
	}
	for _, k := range a.says {
		s.put(k)
	}
	return s.view(state, a.of)
}

// ask asks the server about a target. The answer is nil if the source was restored meanwhile, or Writes closed.
func (w *Writes[V]) ask(ctx context.Context, of Target) (*answer[V], error) {
	if err := w.pauses.wait(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	s, before := w.loaded(), w.options.State()
	said, err := w.options.Ask(ctx, of)
	if errors.Is(err, ErrNoRevision) {
		said, err = Answer[V]{}, nil
	}
	if w.pauses.ended(began, err); err != nil {
		return nil, err
	}
	a := &answer[V]{of: of, revision: said.Revision, asked: s.number}
	if a.revision > 0 {
		a.read(said, w.options.State(), &w.options)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		return nil, nil
	}
	state := w.stateLocked()
	defer w.publishLocked(state)
	if w.now.restored != s.restored {
		return nil, nil
	}
	// An answer of before the state of before the question says that the source was restored, and nobody has told yet.
	if before.Restored() == s.restored && a.revision > 0 && a.revision < before.Revision() {
		w.restartLocked(s.restored + 1)
		a.asked = w.now.number
	}
	a.restored = w.now.restored
	w.now.number++
	for n := range a.says {
		a.says[n].number = w.now.number
	}
	w.now.learn(a)
	return a, nil
}

// read makes statements of what the server has said. An item that the state has takes no memory.
func (a *answer[V]) read(said Answer[V], state *watchcache.Snapshot[V], o *Options[V]) {
	k := statement[V]{Target: a.of, outcome: Hidden, at: a.revision, answered: true, noted: time.Now()}
	for _, lost := range said.Lost {
		l := k
		l.Target, l.object = Target{Key: lost.Key}, object[V]{revision: a.revision, uid: lost.UID, lost: lost.Err}
		a.says = append(a.says, l)
	}
	switch {
	case a.of.All:
		engine := watchcache.New[V, struct{}](watchcache.Options[V]{})
		engine.Replace(said.Items, a.revision)
		k.outcome, k.list = Ambiguous, engine.Snapshot()
		for _, item := range said.Items {
			k.bytes += entryBytes
			if same, there := state.Get(item.Key); !there || same.Revision != item.Revision {
				k.bytes += o.Size(item.Value)
			}
		}
	case len(said.Items) > 0:
		item := said.Items[0]
		k.outcome, k.object = Shown, object[V]{revision: item.Revision, uid: o.UID(item.Value), value: item.Value, bytes: o.Size(item.Value)}
	case len(said.Lost) > 0, a.of == Target{}:
		return
	default:
		k.revision = a.revision
	}
	a.says = append(a.says, k)
}
