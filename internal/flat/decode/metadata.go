// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"iter"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// Namespace returns metadata.namespace.
func (o Object) Namespace() string { return o.text(plan.MetaNamespace) }

// Name returns metadata.name.
func (o Object) Name() string { return o.text(plan.MetaName) }

// ResourceVersion returns metadata.resourceVersion.
func (o Object) ResourceVersion() string { return o.text(plan.MetaResourceVersion) }

// UID returns metadata.uid.
func (o Object) UID() string { return o.text(plan.MetaUID) }

// Label returns the label with that key.
func (o Object) Label(key string) (string, bool) { return o.lookup(plan.MetaLabels, key) }

// Annotation returns the annotation with that key.
func (o Object) Annotation(key string) (string, bool) { return o.lookup(plan.MetaAnnotations, key) }

// Labels walks the labels in the order of their keys.
func (o Object) Labels() iter.Seq2[string, string] { return o.walk(plan.MetaLabels) }

// Annotations walks the annotations in the order of their keys.
func (o Object) Annotations() iter.Seq2[string, string] { return o.walk(plan.MetaAnnotations) }

// seek moves r to metadata field number want. It says whether o has that field.
func (r *reader) seek(o Object, want int) bool {
	var h header
	if !r.open(o, &h) || h.flags&form.FlagMetadata == 0 {
		return false
	}
	set := r.bitmap(&plan.Metadata().Groups[0])
	if set&(1<<want) == 0 {
		return false
	}
	r.skipMetadata(set, want)
	return !r.bad
}

// skipHead skips the metadata head of unstructured content.
func (r *reader) skipHead() {
	r.skipMetadata(r.bitmap(&plan.Metadata().Groups[0]), plan.MetaAnnotations+1)
}

// skipMetadata skips those of the first n metadata fields that are in set.
func (r *reader) skipMetadata(set uint64, n int) {
	for i := range n {
		switch {
		case set&(1<<i) == 0:
		case i < plan.MetaLabels:
			r.passString()
		default:
			r.skipStrings()
		}
	}
}

// passString skips a string. Unlike skipString it compares nothing.
func (r *reader) passString() {
	if h := r.uvarint(); h&3 == 0 { // otherwise the string stands elsewhere
		r.over(h >> 2)
	}
}

// skipStrings skips a map of strings.
func (r *reader) skipStrings() {
	h := r.uvarint()
	if h&1 != 0 {
		return
	}
	for i := uint64(0); i < h&^1 && !r.bad; i++ {
		r.passString()
	}
}

// text returns the metadata string number want.
func (o Object) text(want int) string {
	var r reader
	if !r.seek(o, want) {
		return ""
	}
	return r.string()
}

// pairs goes to the first pair of the map of strings at which r stands, and returns the number of
// pairs.
func (r *reader) pairs() int {
	h := r.uvarint()
	if h&1 != 0 {
		if _, ok := r.shared(h >> 1); !ok {
			return 0
		}
		h = r.uvarint()
	}
	return int(min(h>>1, uint64(len(r.buf))))
}

// lookup returns the value of key in metadata map number want.
func (o Object) lookup(want int, key string) (string, bool) {
	var r reader
	if !r.seek(o, want) {
		return "", false
	}
	number, numbered := r.annex.Dict.NumberOf(key)
	for n := r.pairs(); n > 0 && !r.bad; n-- {
		// A key in the dictionary is compared by its number, because its text may be anywhere in
		// memory.
		h := r.uvarint()
		if h&1 != 0 && numbered && h>>1 == number || !(h&1 != 0 && numbered) && r.stringAfter(h) == key {
			value := r.string()
			return value, !r.bad
		}
		r.passString()
	}
	return "", false
}

// walk returns the pairs of metadata map number want.
func (o Object) walk(want int) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		var r reader
		if !r.seek(o, want) {
			return
		}
		for n := r.pairs(); n > 0; n-- {
			k, v := r.string(), r.string()
			if r.bad || !yield(k, v) {
				return
			}
		}
	}
}
