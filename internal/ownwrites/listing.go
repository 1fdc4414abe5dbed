// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"slices"
	"strings"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// listing is a list of the objects with a prefix that has answered a doubt. The list also says which objects
// there are not. Those of them that the state had before, or that were noted, have entries. Others were created
// and deleted between the state and the list: the state gets each of them and loses it again on its way to the
// revision of the list. Until it is there, an object without an entry that is newer than the state before is
// denied: so the entry of an object that the list has and the state had not stays as long.
type listing struct {
	prefix   string
	since    uint64 // the revision of the state before; 0 if that is of a history before
	revision uint64 // of the list
	history  int    // of the revisions
	of       uint64 // as that of an entry
}

// newListing returns a list that was asked for after a state.
func newListing[V any](prefix string, before *watchcache.Snapshot[V], revision uint64, history int, of uint64) listing {
	l := listing{prefix: prefix, revision: revision, history: history, of: of}
	if before.Restored() >= history {
		l.since = before.Revision()
	}
	return l
}

// underWay reports whether a state may have objects that the list denies.
func underWay[V any](l listing, state *watchcache.Snapshot[V]) bool {
	return state.Restored() >= l.history && l.since < state.Revision() && state.Revision() < l.revision
}

// reached reports whether a state is as far as l: then l denies nothing any more.
func reached[V any](l listing, state *watchcache.Snapshot[V]) bool {
	return state.Restored() >= l.history && state.Revision() >= l.revision
}

// deniedLocked reports whether a newer list has denied the object of an answer, whose entry is next, and there is no
// entry for its key: an object that the list has, or the state had before, has one.
func (o *Overlay[V]) deniedLocked(next *Entry[V], a Answer[V]) bool {
	denies := func(l listing) bool {
		newer := l.history > next.history || l.history == next.history && l.revision > a.Revision && a.Item.Revision > l.since
		return newer && strings.HasPrefix(next.Key, l.prefix)
	}
	return slices.ContainsFunc(o.doubts, func(d *doubt) bool { return slices.ContainsFunc(d.listed, denies) })
}

// listedLocked returns the revision of the newest list that has answered a doubt of a key, 0 if there is none.
func (o *Overlay[V]) listedLocked(key string) (revision uint64) {
	for _, d := range o.doubts {
		for _, l := range d.listed {
			if strings.HasPrefix(key, l.prefix) {
				revision = max(revision, l.revision)
			}
		}
	}
	return revision
}

// deny returns the entries with those of the objects that a list has denied, for a read of key or of all keys
// with prefix if key is empty. Those are all that it returns if there are any.
func (s *Set[V]) deny(state *watchcache.Snapshot[V], prefix, key string) *Set[V] {
	if key != "" {
		prefix = key
	}
	var with *Set[V] // nil for s
	for _, d := range s.doubts {
		for _, l := range d.listed {
			if !underWay(l, state) || !strings.HasPrefix(prefix, l.prefix) && !strings.HasPrefix(l.prefix, prefix) {
				continue
			}
			for item := range state.Items(max(prefix, l.prefix), "") {
				if item.Revision <= l.since || s.entries.get(item.Key) != nil {
					continue
				}
				if with == nil {
					with = s.only(prefix)
				}
				with.entries.set(&Entry[V]{Key: item.Key, Outcome: Hidden, Revision: l.revision, noting: noting{history: l.history}})
			}
		}
	}
	if with == nil {
		return s
	}
	return with
}

// only returns a set of its own with the entries for the keys with prefix.
func (s *Set[V]) only(prefix string) *Set[V] {
	only := *s
	only.entries = newEntries[V]() // to copy the tree would write to it
	for e := range s.entries.with(prefix, "") {
		only.entries.set(e)
	}
	return &only
}
