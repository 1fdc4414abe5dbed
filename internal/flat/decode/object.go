// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// Object is the flat form of one object: immutable bytes without pointers, and a reference to the
// dictionary that they use. The zero Object holds nothing. Copies of an Object share the bytes.
//
// The methods that return metadata read it from the bytes, without decoding the object. They return
// empty values if the object has no metadata. The strings refer to immutable memory.
type Object struct {
	data  string
	annex *annex // nil if there is neither a dictionary nor a part
}

// annex is the dictionary and the parts of an Object, see package form.
type annex = dictionary.Annex

// noAnnex is the annex of an Object that has neither.
var noAnnex annex

// NewObject returns the Object of bytes that were encoded with a dictionary, which may be nil, and of the
// parts to which they refer. A small object has no parts.
func NewObject(data string, d *dictionary.Dictionary, parts []string) Object {
	switch {
	case parts != nil:
		return Object{data, &annex{Dict: d, Parts: parts}}
	case d != nil:
		return Object{data, d.Alone()}
	}
	return Object{data: data}
}

// IsZero says whether o is the zero Object.
func (o Object) IsZero() bool { return o.data == "" }

// Size returns the number of bytes that o takes, without its share of the dictionary.
func (o Object) Size() int {
	size := len(o.data)
	if parts := o.parts(); parts != nil {
		size += int(unsafe.Sizeof(annex{})) + len(parts)*int(unsafe.Sizeof(""))
		for _, p := range parts {
			size += len(p)
		}
	}
	return size
}

// Dictionary returns the dictionary that o was encoded with, or nil.
func (o Object) Dictionary() *dictionary.Dictionary {
	if o.annex == nil {
		return nil
	}
	return o.annex.Dict
}

// parts returns the memory of the strings of a large Object, or nil if o is small.
func (o Object) parts() []string {
	if o.annex == nil {
		return nil
	}
	return o.annex.Parts
}

// Identity identifies an Object and its copies. Another Object has another Identity, even if it has
// the same bytes. An Identity keeps the bytes in memory, so that no later Object gets the same
// Identity. It does not keep the dictionary.
type Identity struct{ data *byte }

// Identity returns the identity of o, which must not be the zero Object.
func (o Object) Identity() Identity { return Identity{unsafe.StringData(o.data)} }
