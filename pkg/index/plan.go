// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// LabelName is the name of the index over the values of a label. Indexes that users
// name are beside it in an engine; none of them has a zero byte in its name.
func LabelName(key string) string { return "label\x00" + key }

// ScanWorth is the number of objects up to which looking at all of them is quicker than an
// index, and an index that nobody declared is not worth its memory.
const ScanWorth = 128

// Plan is where to look for the objects that match a selector: in the posting
// lists of some values of one index. They hold every match, and others too unless
// Whole is set.
type Plan struct {
	// Index is the name of the index.
	Index string
	// Whole reports that every key of the plan is that of a match: the plan answers the
	// label selector and the field selection completely, so that no object need be
	// compared with them.
	Whole bool

	postings *Postings
	prefix   string
	values   []string // nil stands for all
}

// Keys returns the keys to look at, in order and each once.
func (p Plan) Keys() []string { return slices.Collect(p.KeysFrom("")) }

// KeysFrom walks the keys to look at without those before the key from, in order and each
// once. Those of one value are read as far as they are walked.
func (p Plan) KeysFrom(from string) iter.Seq[string] {
	if len(p.values) == 1 {
		return p.postings.KeysFrom(p.values[0], p.prefix, from)
	}
	return func(yield func(string) bool) {
		values := slices.Values(p.values)
		if p.values == nil {
			values = p.postings.Values()
		}
		var keys []string
		for value := range values {
			keys = slices.AppendSeq(keys, p.postings.KeysFrom(value, p.prefix, from))
		}
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if !yield(key) {
				return
			}
		}
	}
}

// count returns how many keys there are to look at, or limit if there are as many.
func (p Plan) count(limit int) int {
	if p.values == nil {
		return min(p.postings.Len(), limit)
	}
	count := 0
	for _, value := range p.values {
		if count += p.postings.Count(value, p.prefix, limit-count); count >= limit {
			return limit
		}
	}
	return count
}

// LabelKeys returns the labels whose indexes could answer selector. A requirement
// that an object meets without the label is answered by no index.
func LabelKeys(selector labels.Selector) []string { return LabelKeysIn(selector, "") }

// LabelKeysIn returns the labels whose indexes NewPlan could choose for selector and
// the keys with prefix.
func LabelKeysIn(selector labels.Selector, prefix string) []string {
	var keys []string
	required, _ := requirements(selector)
	for _, r := range required {
		if values, ok := wanted(r); ok && usable(values, prefix) {
			keys = append(keys, r.Key())
		}
	}
	return keys
}

// requirements returns those of selector; all is false if it asks for more than they say, as
// labels.Nothing does.
func requirements(selector labels.Selector) (required labels.Requirements, all bool) {
	if selector == nil {
		return nil, true
	}
	return selector.Requirements()
}

// wanted returns the values of the label that meet r, nil for all of them; ok is
// false if others do too.
func wanted(r labels.Requirement) (values []string, ok bool) {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return r.Values().UnsortedList(), true
	case selection.Exists:
		return nil, true
	}
	return nil, false
}

// NewPlan chooses the shortest posting lists that hold every match. open returns an
// index by its name, nil if there is none; prefix is that of the keys that count.
// The plan must be shorter than limit to be worth more than looking at all objects;
// ok is false if there is none.
func NewPlan(byLabel labels.Selector, byField Selection, open func(name string) *Postings, prefix string, limit int) (plan Plan, ok bool) {
	required, all := requirements(byLabel)
	alone := all && !byField.nothing && len(required)+len(byField.requirements) == 1
	consider := func(name string, values []string) {
		postings := open(name)
		if postings == nil || !usable(values, prefix) {
			return
		}
		candidate := Plan{Index: name, Whole: alone, postings: postings, prefix: prefix, values: values}
		if count := candidate.count(limit); count < limit {
			plan, limit, ok = candidate, count, true
		}
	}
	for field, value := range byField.Equals() {
		consider(Name(field), []string{value})
	}
	for _, r := range required {
		if values, usable := wanted(r); usable {
			consider(LabelName(r.Key()), values)
		}
	}
	return plan, ok
}

// usable reports whether postings answer for some values, or nil for all, and a prefix.
// All values of a label are no plan for a prefix: to find their keys with the prefix
// takes as long as there are values, which may be as many as there are objects.
func usable(values []string, prefix string) bool { return values != nil || prefix == "" }
