// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"cmp"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// unknown is the minimum revision of an ambiguous write until a question that was asked after it is answered. No state
// has reached it.
const unknown = math.MaxUint64

// statement says what is known of a key, or of all keys with a prefix, and by when they may have been written once more. It does
// not change.
type statement[V any] struct {
	Target
	known[V]
	minimum uint64    // by which ambiguous writes have happened; 0 for none. That of a list is its own, for reads of more
	until   time.Time // until when a read waits for the watch to reach minimum, instead of asking the server
	told    uint64    // the newest version of the object that an ambiguous write is known to have made
	number  uint64    // in the order of notes
	noted   time.Time
}

// known is what is under a key, or under all keys with a prefix, from a revision on.
type known[V any] struct {
	outcome note.Outcome
	at      uint64 // 0 if nothing is known
	uid     types.UID
	make    func() (Made[V], error) // the value of item, if that is not made yet
	item    watchcache.Item[V]      // of Shown; without a revision it is as old as at
	lost    error                   // of Hidden: there is an object, and this is why the cache cannot hold it
	list    *watchcache.Snapshot[V] // of a prefix: reads see it in place of an older state
	bytes   int                     // of make, item or list
}

// with returns k with what is known instead. If that is nothing, what is under the key is ambiguous.
func (k *statement[V]) with(what known[V]) statement[V] {
	next := *k
	if next.known = what; what.at == 0 {
		next.minimum, next.told = max(k.at, k.minimum), k.newest()
	}
	return next
}

// newest returns the newest version of the object that was told: a state with an older one does not hold it.
func (k *statement[V]) newest() uint64 { return max(k.told, cmp.Or(k.item.Revision, k.at)) }

// set is all that is noted at one moment: one statement for each key, and for each prefix. It does not change
// once it is published.
type set[V any] struct {
	uid      func(V) types.UID
	keys     *btree.Map[string, *statement[V]]
	prefixes *btree.Map[string, *statement[V]]
	number   uint64 // how many notes there have been
	// restored is how often the source was restored before the revisions of the statements. It may be one ahead of the
	// engine, from Reset to Engine.Restore; if no restore follows, Listed takes it back.
	restored int

	bytes, objects int // how many they take, and how many have an object or a list
}

func newSet[V any](uid func(V) types.UID) *set[V] {
	return &set[V]{uid: uid, keys: &btree.Map[string, *statement[V]]{}, prefixes: &btree.Map[string, *statement[V]]{}}
}

// copy returns a copy, which can be changed. Callers hold the lock of Writes.
func (s *set[V]) copy() *set[V] {
	c := *s
	c.keys, c.prefixes = s.keys.Copy(), s.prefixes.Copy()
	return &c
}

func (s *set[V]) len() int { return s.keys.Len() + s.prefixes.Len() }

// reached returns up to which revision a state has what is noted in s.
func (s *set[V]) reached(state *watchcache.Snapshot[V]) uint64 {
	if state.Restored() < s.restored {
		return 0
	}
	return state.Revision()
}

// over reports whether k lies over a state at a revision. A state has reached k when it is at its revision, and has neither an
// older version of the object, as when the cache cannot hold the newer one, nor the object that is gone.
func (s *set[V]) over(k *statement[V], state *watchcache.Snapshot[V], at uint64) bool {
	if at < k.at {
		return true
	}
	item, there := state.Get(k.Key)
	return there && (item.Revision < k.newest() || k.outcome == note.Gone && s.uid(item.Value) == k.uid)
}

// needed reports whether a state has not reached k, or ambiguous writes after it.
func (s *set[V]) needed(k *statement[V], state *watchcache.Snapshot[V]) bool {
	at := s.reached(state)
	return at < k.minimum || s.over(k, state, at)
}

func (s *set[V]) get(key string) *statement[V] {
	k, _ := s.keys.Get(key)
	return k
}

// all walks the statements about keys of a target, not before from, in the order of the keys.
func (s *set[V]) all(of Target, from string) iter.Seq[*statement[V]] {
	return func(yield func(*statement[V]) bool) {
		if of.All {
			s.keys.Ascend(max(of.Key, from), func(key string, k *statement[V]) bool { return strings.HasPrefix(key, of.Key) && yield(k) })
		} else if k := s.get(of.Key); k != nil && of.Key >= from {
			yield(k)
		}
	}
}

// about returns the statements about keys, or those about prefixes.
func (s *set[V]) about(t Target) *btree.Map[string, *statement[V]] {
	if t.All {
		return s.prefixes
	}
	return s.keys
}

// store replaces what is there about the target of k.
func (s *set[V]) store(k statement[V]) {
	if old, there := s.about(k.Target).Set(k.Key, &k); there {
		s.count(old, -1)
	}
	s.count(&k, 1)
}

func (s *set[V]) count(k *statement[V], n int) {
	s.bytes += n * (entryBytes + len(k.Key) + k.bytes)
	if k.bytes > 0 {
		s.objects += n
	}
}

// change puts what f makes of each statement in its place, nothing for nil.
func (s *set[V]) change(f func(*statement[V]) *statement[V]) {
	for _, k := range append(s.prefixes.Values(), s.keys.Values()...) {
		if next := f(k); next == nil {
			s.about(k.Target).Delete(k.Key)
			s.count(k, -1)
		} else if next != k {
			s.store(*next)
		}
	}
}

// put adds a statement to what is there about its target. What is known is that of the later revision, and the minimum revision the
// later one. An object that is gone stays so whatever response to an earlier write of it is late; only an ambiguous write without a
// revision, or without its UID, may have created another object.
func (s *set[V]) put(k statement[V]) {
	old, there := s.about(k.Target).Get(k.Key)
	if !there {
		s.store(k)
		return
	}
	next := *old
	if old.outcome == note.Gone && old.uid == k.uid && k.minimum != unknown {
		next.at = max(old.at, k.at, k.minimum)
		next.item.Revision = next.at
		s.store(next)
		return
	}
	next.number, next.noted, next.told = k.number, k.noted, max(k.told, old.told)
	if k.at > old.at || k.at == old.at && (old.make != nil || k.outcome == note.Gone) {
		next.known = k.known
	}
	if k.minimum >= old.minimum {
		next.minimum, next.until = k.minimum, k.until
	}
	s.store(next)
}
