// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

const (
	// firstPause and longestPause bound the time after a question that was not answered.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
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
	revision uint64         // 0 if the server does not say it
	asked    uint64         // how many notes there were then
	says     []statement[V] // about the key; or the list of the prefix, and the objects that the cache cannot hold
}

// pauses are between questions to a server that does not answer.
type pauses struct {
	last         error     // of the last question, nil if it was answered
	since, until time.Time // when the first question failed, and when the next one may be asked
}

// ended notes the error of a question, nil if it was answered. A pause is as long as the server has not answered.
func (p *pauses) ended(err error) {
	now := time.Now()
	if p.last == nil {
		p.since = now
	}
	p.last, p.until = err, now.Add(min(max(now.Sub(p.since), firstPause), longestPause))
}

// gaveUp returns the error of a reader whose context has ended before there was an answer.
func (w *Writes[V]) gaveUp(cause error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.pauses.last; last != nil {
		return fmt.Errorf("%w, and the question before has failed: %w", cause, last)
	}
	return cause
}

// ask asks the server about a target. While the server does not answer, one question is asked for all of them after each pause,
// and its error is that of all. The answer is nil if the source was restored meanwhile, or Writes closed.
func (w *Writes[V]) ask(of Target) (a *answer[V], err error) {
	for {
		w.mu.Lock()
		now := w.pauses
		w.mu.Unlock()
		if now.last == nil {
			return w.askNow(of)
		}
		_, err, _ = w.flights.Do("turn", func() (any, error) {
			select {
			case <-time.After(time.Until(now.until)):
			case <-w.life.Done():
			}
			a, err = w.askNow(of)
			return nil, err
		})
		if a != nil || err != nil {
			return a, err
		}
	}
}

func (w *Writes[V]) askNow(of Target) (*answer[V], error) {
	before := w.options.State()
	w.mu.Lock()
	asked, restored := w.now.number, w.now.restored
	w.mu.Unlock()
	said, err := w.options.Ask(w.life, of)
	if errors.Is(err, ErrNoRevision) {
		said, err = Answer[V]{}, nil
	}
	a := &answer[V]{of: of, revision: said.Revision, asked: asked}
	if err == nil && a.revision > 0 {
		a.read(said, w.options.State(), &w.options)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pauses.ended(err); err != nil || w.life.Err() != nil {
		return nil, err
	}
	state := w.stateLocked()
	defer w.publishLocked(state)
	// An answer of before the state of before the question says that the source was restored, and nobody has told yet.
	if before.Restored() == w.now.restored && a.revision > 0 && a.revision < before.Revision() {
		w.restartLocked(w.now.restored + 1)
	}
	if w.now.restored != restored {
		return nil, nil
	}
	w.learnLocked(a, state)
	return a, nil
}

// learnLocked notes the answer to a question: what was ambiguous before the question has its revision as the minimum.
func (w *Writes[V]) learnLocked(a *answer[V], state *watchcache.Snapshot[V]) {
	w.now.number++
	w.now.change(func(k *statement[V]) *statement[V] {
		switch {
		case a.revision == 0 && k.minimum > k.at && k.meets(a.of):
			return nil // there is nothing to compare with the watch, which is believed
		case a.revision > 0 && k.minimum == unknown && k.number <= a.asked:
			bounded := *k
			bounded.minimum = max(a.revision, k.newest())
			return &bounded
		}
		return k
	})
	for n := range a.says {
		a.says[n].number = w.now.number
		k := a.says[n]
		if k.list != nil && !w.fitsLocked(w.options.Budget.objects, k.bytes) {
			k = w.dropLocked(&k, state)
		}
		w.now.put(k)
	}
}

// read makes statements of what the server has said. An item that the state has takes no memory.
func (a *answer[V]) read(said Answer[V], state *watchcache.Snapshot[V], o *Options[V]) {
	says := func(of Target, what known[V]) {
		what.at = a.revision
		a.says = append(a.says, statement[V]{Target: of, known: what, noted: time.Now()})
	}
	for _, lost := range said.Lost {
		says(Target{Key: lost.Key}, known[V]{outcome: note.Hidden, uid: lost.UID, lost: lost.Err})
	}
	switch {
	case a.of.All:
		engine := watchcache.New[V, struct{}](watchcache.Options[V]{})
		engine.Replace(said.Items, a.revision)
		bytes := len(said.Items) * entryBytes
		for _, item := range said.Items {
			if same, there := state.Get(item.Key); !there || same.Revision != item.Revision {
				bytes += o.Size(item.Value)
			}
		}
		says(a.of, known[V]{list: engine.Snapshot(), bytes: bytes})
		a.says[len(a.says)-1].minimum = a.revision
	case len(said.Items) > 0:
		item := said.Items[0]
		says(a.of, known[V]{uid: o.UID(item.Value), item: item, bytes: o.Size(item.Value)})
	case len(said.Lost) == 0 && a.of != Target{}:
		says(a.of, known[V]{outcome: note.Hidden})
	}
}
