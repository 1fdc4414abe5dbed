// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package postings

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// LabelName returns the name of the index of a label. It has a zero byte, which the names of
// users' indexes in the same store do not have.
func LabelName(key string) string { return labelPrefix + key }

const labelPrefix = "label\x00"

// LabelOf returns the key of the label that an index with that name is about, if it is one of a label.
func LabelOf(name string) (key string, ok bool) { return strings.CutPrefix(name, labelPrefix) }

// ScanWorth is a number of objects. To look at each of so many objects, or fewer, is quicker
// than to use an index, so that an index on demand is not worth its memory.
const ScanWorth = 128

// Plan says where to look for the objects that match a selector: in the posting lists of some
// values of one index. These hold every match and, unless Whole is set, other objects too. A
// Plan is valid as long as nobody writes to the Postings that it was made of.
type Plan struct {
	// Index is the name of the index, as NewPlan's open takes it.
	Index string
	// Whole reports that every key of the plan is a match. The plan answers the label selector and
	// the field selection completely, so no object need be compared with them.
	Whole bool
	// Count is the number of keys. A key that several values have is counted for each of them.
	Count int

	postings *Postings
	prefix   string
	values   []string // nil stands for all
}

// KeysFrom walks the keys of the objects to look at, in order and each once, and begins with the
// first one that is not lower than from; empty stands for all. If the plan has one value, a walk
// that ends early has read no more keys than it has passed on.
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

// count returns the number of keys to look at, but at most limit.
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

// LabelKeys returns the keys of the labels whose indexes NewPlan could choose for selector, among
// objects whose keys begin with prefix. A requirement that objects without the label meet, such
// as != or notin, can use no index. A nil selector has no requirements.
func LabelKeys(selector labels.Selector, prefix string) []string {
	var keys []string
	required, _ := requirements(selector)
	for _, r := range required {
		if values, ok := wanted(r); ok && usable(values, prefix) {
			keys = append(keys, r.Key())
		}
	}
	return keys
}

// requirements returns the requirements of selector. If all is false, an object that meets them
// need not match: labels.Nothing has none, and nothing matches it.
func requirements(selector labels.Selector) (required labels.Requirements, all bool) {
	if selector == nil {
		return nil, true
	}
	return selector.Requirements()
}

// wanted returns the values of the label that meet r; nil stands for all values. If ok is false,
// objects that have none of these values can meet r as well.
func wanted(r labels.Requirement) (values []string, ok bool) {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return r.Values().UnsortedList(), true
	case selection.Exists:
		return nil, true
	}
	return nil, false
}

// NewPlan chooses the shortest posting lists with every object whose key begins with prefix and
// that byLabel and byField select. A nil byLabel and the zero byField select everything. The
// function open returns the index with a name, or nil if there is none. If each choice has limit
// keys or more, ok is false: then to walk all objects is quicker.
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
			plan.Count = count
		}
	}
	complete := true // each object is in the indexes of fields
	if byField.unfit != "" {
		unfit := open(byField.unfit)
		complete = unfit == nil || unfit.Len() == 0
	}
	for i := range byField.requirements {
		if r := &byField.requirements[i]; r.exact() && complete {
			consider(r.index, []string{r.value})
		}
	}
	for _, r := range required {
		if values, usable := wanted(r); usable {
			consider(LabelName(r.Key()), values)
		}
	}
	return plan, ok
}

// usable reports whether posting lists find the keys with a prefix that have one of values, or
// any value if values is nil. For any value and a prefix they do not: each value has a list of its
// own to look into, and there may be as many values as objects.
func usable(values []string, prefix string) bool { return values != nil || prefix == "" }
