// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"errors"
	"math"
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
	Key      string
	Revision uint64
	UID      types.UID
	Err      error
}

// ErrNoRevision is what Ask and Revision return if the server does not say of which revision its answer is:
// then there is nothing to compare with the watch, which is believed.
var ErrNoRevision = errors.New("the resource version of the list is no positive number")

// neverAll says, as the number of questions about a prefix, that there was no room for a list of it.
const neverAll = math.MinInt / 2

// answered is the answer to a question.
type answered[V any] struct {
	of    Target
	asked uint64 // how many notes there were then
	at    point
	list  *watchcache.Snapshot[V] // of a target with All
	lost  map[string]*known[V]    // what the list does not have because the cache cannot hold it
	found []keyed[V]              // what is known of the one key, or of those that the cache cannot hold
}

// ask asks the server about a target. The answer is nil if nothing is ambiguous any more, or if the source was
// restored meanwhile.
func (w *Writes[V]) ask(ctx context.Context, of Target) (*answered[V], error) {
	if err := w.pauses.wait(ctx); err != nil {
		return nil, err
	}
	s := w.set.Load()
	before := w.options.State()
	if s == nil {
		return nil, nil
	}
	if v := s.view(before, of, &w.options); !s.anyOpen(&v, of) {
		return nil, nil
	}
	began := time.Now()
	said, err := w.options.Ask(ctx, of)
	if w.pauses.ended(began, err); errors.Is(err, ErrNoRevision) {
		w.believe(of)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &answered[V]{of: of, asked: s.number}
	if w.life.Err() != nil || !w.placeLocked(a, s, before, said.Revision) {
		return nil, nil
	}
	state := w.options.State()
	for _, lost := range said.Lost {
		k := newKnown(a.at, content[V]{made: Made[V]{Lost: lost.Err}})
		k.revision, k.uid = lost.Revision, lost.UID
		w.foundLocked(state, a, lost.Key, k)
	}
	if of.All {
		w.listedLocked(a, said.Items, state)
	} else {
		w.keyLocked(a, said, state)
	}
	w.publishLocked(state)
	return a, nil
}

// placeLocked says when an answer is of. If that is before the state of before the question, the source was restored
// from a backup, and nobody has told yet. It reports whether the answer is of a time that can be compared.
func (w *Writes[V]) placeLocked(a *answered[V], s *set[V], before *watchcache.Snapshot[V], revision uint64) bool {
	if w.now.restored != s.restored {
		return false
	}
	if before.Restored() == s.restored && revision < before.Revision() {
		w.restartLocked(s.restored + 1)
		a.asked = w.now.number
	}
	a.at = point{w.now.restored, revision}
	return true
}

// foundLocked notes what an answer says of one key.
func (w *Writes[V]) foundLocked(state *watchcache.Snapshot[V], a *answered[V], key string, k *known[V]) {
	w.now.number++
	k.number, k.noted = w.now.number, time.Now()
	w.putLocked(state, key, k)
	a.found = append(a.found, keyed[V]{key: key, entry: entry[V]{known: k}})
}

// keyLocked notes the answer about one key.
func (w *Writes[V]) keyLocked(a *answered[V], said Answer[V], state *watchcache.Snapshot[V]) {
	key := a.of.Key
	if len(said.Items) > 0 {
		k := newKnown(a.at, content[V]{made: Made[V]{Value: said.Items[0].Value, Held: true}})
		k.revision, k.uid = said.Items[0].Revision, w.options.UID(said.Items[0].Value)
		w.foundLocked(state, a, key, k)
	} else if len(said.Lost) == 0 {
		w.foundLocked(state, a, key, newKnown(a.at, content[V]{}))
	}
	w.answeredLocked(a)
	w.changePrefixesLocked(func(p *ambiguous[V]) *ambiguous[V] {
		if !p.covers(a.of) {
			return p
		}
		next := *p.by(a.at, a.asked)
		next.asked++
		return &next
	})
}

// answeredLocked notes that the keys of an answer are not ambiguous any more, unless they were written since.
func (w *Writes[V]) answeredLocked(a *answered[V]) {
	if w.now.open == 0 {
		return
	}
	for _, e := range w.now.entries.all(a.of) {
		if e.ambiguous != nil && e.ambiguous.number <= a.asked {
			e.ambiguous = nil
			w.setLocked(e.key, e.entry)
		}
	}
}

// listedLocked notes a list. Its keys are ambiguous until the state has reached it, or as long as there is room for
// the list, known from that.
func (w *Writes[V]) listedLocked(a *answered[V], items []watchcache.Item[V], state *watchcache.Snapshot[V]) {
	engine := watchcache.New[V, struct{}](watchcache.Options[V]{})
	engine.Replace(items, a.at.revision)
	a.list, a.lost = engine.Snapshot(), map[string]*known[V]{}
	for _, lost := range a.found {
		a.lost[lost.key] = lost.known
	}
	w.now.number++
	listed := &ambiguous[V]{Target: a.of, minimum: a.at, number: w.now.number, noted: time.Now(), asked: 1, list: a.list, lost: a.lost}
	for _, item := range items {
		listed.bytes += entryBytes
		if same, there := state.Get(item.Key); !there || same.Revision != item.Revision {
			listed.bytes += w.options.Size(item.Value)
		}
	}
	w.answeredLocked(a)
	w.changePrefixesLocked(func(p *ambiguous[V]) *ambiguous[V] { return p.by(a.at, a.asked) })
	w.prefixLocked(listed)
}

// believe drops what is ambiguous of a target, because the server does not say how far it is.
func (w *Writes[V]) believe(of Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.now.entries.all(of) {
		if e.ambiguous = nil; e.known != nil && e.known.content.Load().missing {
			e.known = nil
		}
		w.setLocked(e.key, e.entry)
	}
	w.changePrefixesLocked(func(a *ambiguous[V]) *ambiguous[V] {
		if a.meets(of) {
			return nil
		}
		return a
	})
	w.publishLocked(w.options.State())
}
