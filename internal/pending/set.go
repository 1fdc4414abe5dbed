// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// afterRestore is the revision of a state of a later history: it has reached all that is noted, but what is unknown.
const afterRestore = unknown - 1

// set is all that is noted at one moment: one statement for each key, and for each prefix. It does not change
// once it is published.
type set[V any] struct {
	options  *Options[V]
	keys     *btree.Map[string, *statement[V]]
	prefixes []*statement[V]
	open     int    // how many are ambiguous, or have an object to make
	number   uint64 // how many notes there have been
	// restored is how often the source was restored before the revisions of the statements. It may be one ahead of the
	// engine, from Reset to Engine.Restore; if no restore follows, Listed takes it back.
	restored int
	size     size
	room     *Budget                  // nil for no bound; of a set that is not bounded what follows is not used
	held     map[string]*statement[V] // those about keys that have objects
	refused  *statement[V]            // the first one that there was no room for
}

func newSet[V any](o *Options[V]) *set[V] {
	return &set[V]{options: o, keys: &btree.Map[string, *statement[V]]{}}
}

// reached returns up to which revision a state has what is noted in s.
func (s *set[V]) reached(state *watchcache.Snapshot[V]) uint64 {
	switch cmp.Compare(state.Restored(), s.restored) {
	case 0:
		return state.Revision()
	case 1:
		return afterRestore
	}
	return 0
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

// fit makes room for k: the objects and lists of all others go. It returns k, without its list if there is no room for that. There is
// always room for one object.
func (s *set[V]) fit(k statement[V]) statement[V] {
	if k.bytes == 0 || s.room == nil || !s.room.objects.exceeds(s.size.objects+k.bytes, k.bytes) {
		return k
	}
	before := s.size.objects
	for _, other := range s.held {
		s.store(s.refuse(other))
	}
	prefixes := slices.Clone(s.prefixes)
	for n, p := range prefixes {
		if p.list != nil {
			dropped := s.refuse(p)
			prefixes[n] = &dropped
		}
	}
	if s.setPrefixes(prefixes); k.All && s.room.objects.exceeds(k.bytes, k.bytes-before) {
		return s.refuse(&k)
	}
	return k
}

// refuse returns k without its object or list.
func (s *set[V]) refuse(k *statement[V]) statement[V] {
	if s.refused == nil {
		s.refused = k
	}
	return k.dropped()
}

// store replaces what is there under the key of k.
func (s *set[V]) store(k statement[V]) {
	s.remove(k.Key)
	k = s.fit(k)
	s.count(&k, 1)
	s.keys.Set(k.Key, &k)
}

func (s *set[V]) remove(key string) {
	if old, there := s.keys.Delete(key); there {
		s.count(old, -1)
	}
}

func (s *set[V]) setPrefixes(prefixes []*statement[V]) {
	for _, p := range s.prefixes {
		s.count(p, -1)
	}
	for _, p := range prefixes {
		s.count(p, 1)
	}
	s.prefixes = prefixes
}

func (s *set[V]) count(k *statement[V], n int) {
	switch {
	case k.bytes == 0 || k.All || s.held == nil:
	case n > 0:
		s.held[k.Key] = k
	default:
		delete(s.held, k.Key)
	}
	s.size.objects += n * k.bytes
	s.size.keys += n * (entryBytes + len(k.Key))
	if k.open() {
		s.open += n
	}
}

// change puts what f makes of each statement in its place, nothing for nil.
func (s *set[V]) change(f func(*statement[V]) *statement[V]) {
	for _, k := range slices.Collect(s.all(Target{All: true}, "")) {
		if next := f(k); next == nil {
			s.remove(k.Key)
		} else if next != k {
			s.store(*next)
		}
	}
	var prefixes []*statement[V] // a new slice: the other one may be published
	for _, p := range s.prefixes {
		if p = f(p); p != nil {
			prefixes = append(prefixes, p)
		}
	}
	s.setPrefixes(prefixes)
}

// put notes a statement.
func (s *set[V]) put(k statement[V]) {
	if k.All {
		s.putPrefix(k)
	} else {
		s.putKey(k)
	}
}

// putKey notes a statement about a key. It decides between old, which is there already, and k. The later one has the
// higher revision; if both have the same revision, it is the one that is known.
//
//	one says Gone, both have its UID, the later revision is known    Gone at the later revision, whatever was on its way
//	the later one is Ambiguous                                       Ambiguous, to be asked about after both
//	k is the later one                                               k
//	old is the later one                                             old
//
// An Ambiguous of an unknown revision or without a UID replaces Gone: that write may have created another object.
func (s *set[V]) putKey(k statement[V]) {
	old := s.get(k.Key)
	if old == nil {
		s.store(k)
		return
	}
	newer := k.at > old.at || k.at == old.at && k.outcome != Ambiguous && old.open()
	later, stays := *old, k
	if newer {
		later = k
	}
	switch gone := old.outcome == Gone || k.outcome == Gone; {
	case gone && old.uid == k.uid && later.at != unknown:
		if old.outcome == Gone {
			stays.noted = old.noted
		}
		stays.outcome, stays.at, stays.object = Gone, later.at, object[V]{revision: later.at, uid: k.uid}
	case later.outcome == Ambiguous:
		stays.outcome, stays.at, stays.answered = Ambiguous, later.at, later.answered
		stays.object = object[V]{revision: max(k.revision, old.revision), lost: cmp.Or(k.lost, old.lost)}
	case !newer:
		return
	}
	s.store(stays)
}

// known returns a set of what s knows of the keys of a target, which can be changed.
func (s *set[V]) known(of Target) *set[V] {
	own := newSet(s.options)
	own.restored = s.restored
	for k := range s.all(of, "") {
		if !k.open() {
			own.store(*k)
		}
	}
	return own
}

// putPrefix notes a statement about all keys with a prefix, in place of those of before about prefixes that it covers.
func (s *set[V]) putPrefix(p statement[V]) {
	var others []*statement[V]
	for _, o := range s.prefixes {
		if !p.covers(o.Target) || p.at < o.at || p.list == nil && o.list != nil {
			others = append(others, o)
		}
	}
	s.setPrefixes(others)
	p = s.fit(p)
	s.setPrefixes(append(slices.Clone(s.prefixes), &p))
}

// needed reports whether k lies over a state, or over a list that reads see in its place.
func (s *set[V]) needed(k *statement[V], state *watchcache.Snapshot[V]) bool {
	item, there := state.Get(k.Key)
	at := s.reached(state)
	return k.over(at, item, there, s.options.UID) || slices.ContainsFunc(s.prefixes, func(p *statement[V]) bool {
		return p.list != nil && p.Has(k.Key) && at < p.at
	})
}

// learn notes the answer to a question: what was ambiguous before the question has its revision as the minimum.
func (s *set[V]) learn(a *answer[V]) {
	s.change(func(k *statement[V]) *statement[V] {
		switch {
		case k.outcome != Ambiguous:
		case a.revision == 0 && k.meets(a.of):
			return nil // there is nothing to compare with the watch, which is believed
		case a.revision > 0 && k.at == unknown && k.number <= a.asked:
			bounded := *k
			bounded.at, bounded.answered = max(a.revision, k.revision), true
			return &bounded
		}
		return k
	})
	for _, k := range a.says {
		s.put(k)
	}
}
