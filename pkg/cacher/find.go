// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/tarn-dev/tarn/pkg/watchcache"
)

// found is the answer to a list.
type found struct {
	items  []*element
	last   string // the key of the last one
	more   bool   // there is more to look at behind it
	count  int64  // all that there was to look at, if nothing was filtered
	looked int    // how many were looked at
	index  string // what metrics call the index that was used, empty for none
}

// find returns the objects of a list: those that are in state, have the key, or begin with
// it if the list is recursive, do not stand before the key from, and match.
func (c *Cacher) find(state *watchcache.Snapshot[*element], key, from string, opts storage.ListOptions) (found, error) {
	match := newFilter(key, opts.Predicate, c.elements)
	limit := limitOf(opts)
	if !opts.Recursive {
		return findOne(state, key, match)
	}
	if match.everything {
		return page(state, key, from, limit), nil
	}
	items, name := c.candidates(state, key, from, opts.Predicate)
	// What an index has for the only thing that is asked for is known to match.
	match.everything = name != "" && asksOneThing(opts.Predicate)
	f := found{index: name}
	for item := range items {
		if f.full(limit) {
			f.more = true
			break
		}
		if err := f.look(item, match); err != nil {
			return f, err
		}
	}
	return f, nil
}

// candidates walks the objects whose keys begin with key and are not before from, but not all
// of those that p does not select if there is an index that knows better. What metrics call
// that index is empty if there is none.
func (c *Cacher) candidates(
	state *watchcache.Snapshot[*element], key, from string, p storage.SelectionPredicate,
) (items iter.Seq[watchcache.Item[*element]], name string) {
	plan, name, ok := c.indexes.plan(state, key, p)
	if !ok {
		return itemsFrom(state, key, from), ""
	}
	after, found := strings.CutSuffix(from, "\x00") // the end of the page before
	if !found {
		after = ""
	}
	return func(yield func(watchcache.Item[*element]) bool) {
		for key := range plan.KeysAfter(after) {
			if key < from {
				continue
			}
			if item, ok := state.Get(key); ok && !yield(item) {
				return
			}
		}
	}, name
}

// asksOneThing reports that p has one requirement.
func asksOneThing(p storage.SelectionPredicate) bool {
	anyLabel, anyField := p.Label == nil || p.Label.Empty(), p.Field == nil || p.Field.Empty()
	switch {
	case anyLabel && !anyField:
		return len(p.Field.Requirements()) == 1
	case anyField && !anyLabel:
		requirements, _ := p.Label.Requirements()
		return len(requirements) == 1
	}
	return false
}

// itemsFrom walks the objects whose keys begin with key and are not before from.
func itemsFrom(state *watchcache.Snapshot[*element], key, from string) iter.Seq[watchcache.Item[*element]] {
	if from == "" || !strings.HasPrefix(from, key) {
		return state.Items(key, from)
	}
	first, ok := state.Get(from)
	if !ok {
		return state.Items(key, from)
	}
	return func(yield func(watchcache.Item[*element]) bool) {
		if yield(first) {
			state.Items(key, from)(yield)
		}
	}
}

// limitOf returns how many objects a list may have; zero is no limit. A list that takes
// whatever the cache has gets all of it, as with upstream.
func limitOf(opts storage.ListOptions) int {
	if opts.Predicate.Limit <= 0 || opts.ResourceVersion == "0" {
		return 0
	}
	return int(opts.Predicate.Limit)
}

func (f *found) full(limit int) bool { return limit > 0 && len(f.items) == limit }

// look adds item if it matches.
func (f *found) look(item watchcache.Item[*element], match *filter) error {
	f.looked++
	ok, err := match.matches(item.Value)
	if err != nil {
		return err
	}
	if ok {
		f.items, f.last = append(f.items, item.Value), item.Key
	}
	return nil
}

func findOne(state *watchcache.Snapshot[*element], key string, match *filter) (f found, err error) {
	item, ok := state.Get(key)
	if ok {
		err = f.look(item, match)
	}
	f.count = int64(f.looked)
	return f, err
}

// page returns a page of everything below key. It counts without looking at the rest.
func page(state *watchcache.Snapshot[*element], key, from string, limit int) (f found) {
	for item := range itemsFrom(state, key, from) {
		if f.full(limit) {
			f.more = true
			break
		}
		if len(f.items) == watchcache.CountFrom {
			rest := state.Count(key, f.last)
			if limit > 0 {
				rest = min(rest, limit-watchcache.CountFrom)
			}
			f.items = slices.Grow(f.items, rest)
		}
		f.items, f.last = append(f.items, item.Value), item.Key
	}
	f.looked = len(f.items)
	f.count = int64(f.looked)
	if f.more {
		f.count += int64(state.Count(key, f.last))
	}
	return f
}

// filter says which objects a list or a watch is about.
type filter struct {
	prefix     string
	predicate  storage.SelectionPredicate
	elements   *elements
	everything bool // that has the prefix
	sharded    bool
}

func newFilter(prefix string, p storage.SelectionPredicate, e *elements) *filter {
	f := &filter{prefix: prefix, predicate: p, elements: e, everything: p.Empty()}
	f.sharded = p.ShardSelector != nil && !p.ShardSelector.Empty() &&
		utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch)
	return f
}

// matches does not look at the prefix.
func (f *filter) matches(e *element) (bool, error) {
	var object runtime.Object
	return f.matchesWith(e, &object)
}

// matchesWith is matches for who may have made the object of e, or wants it afterwards: it is
// made at most once.
func (f *filter) matchesWith(e *element, object *runtime.Object) (bool, error) {
	if !f.matchesAttributes(e) {
		return false, nil
	}
	if !f.sharded {
		return true, nil
	}
	if err := f.elements.make(e, object); err != nil {
		return false, err
	}
	return f.predicate.MatchesSharding(*object)
}

// matchesAttributes looks at the labels and fields.
func (f *filter) matchesAttributes(e *element) bool {
	if f.everything {
		return true
	}
	if l := f.predicate.Label; l != nil && !l.Empty() && !l.Matches(e.labelView()) {
		return false
	}
	s := f.predicate.Field
	return s == nil || s.Empty() || s.Matches(&e.fields)
}
