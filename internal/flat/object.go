// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"fmt"
	"iter"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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

// annex is the dictionary and the parts of an Object, see parts.go.
type annex = dictionary.Annex

// noAnnex is the annex of an Object that has neither.
var noAnnex annex

// newObject returns the Object of bytes that were encoded with a dictionary, which may be nil, and of the
// parts to which they refer. A small object has no parts.
func newObject(data string, d *dictionary.Dictionary, parts []string) Object {
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

// The bits of the first fields of the metadata, in the order of metadataOrder.
const (
	metaNamespace = iota
	metaName
	metaResourceVersion
	metaUID
	metaLabels
	metaAnnotations
)

// Namespace returns metadata.namespace.
func (o Object) Namespace() string { return o.text(metaNamespace) }

// Name returns metadata.name.
func (o Object) Name() string { return o.text(metaName) }

// ResourceVersion returns metadata.resourceVersion.
func (o Object) ResourceVersion() string { return o.text(metaResourceVersion) }

// UID returns metadata.uid.
func (o Object) UID() string { return o.text(metaUID) }

// Label returns the label with that key.
func (o Object) Label(key string) (string, bool) { return o.lookup(metaLabels, key) }

// Annotation returns the annotation with that key.
func (o Object) Annotation(key string) (string, bool) { return o.lookup(metaAnnotations, key) }

// Labels walks the labels in the order of their keys.
func (o Object) Labels() iter.Seq2[string, string] { return o.walk(metaLabels) }

// Annotations walks the annotations in the order of their keys.
func (o Object) Annotations() iter.Seq2[string, string] { return o.walk(metaAnnotations) }

// seek moves r to metadata field number want. It says whether o has that field.
func (r *reader) seek(o Object, want int) bool {
	if !r.open(o) || r.head.flags&flagMetadata == 0 {
		return false
	}
	set := r.bitmap(&metadataPlan().groups[0])
	if set&(1<<want) == 0 {
		return false
	}
	r.skipMetadata(set, want)
	return !r.bad
}

// skipHead skips the metadata head of unstructured content.
func (r *reader) skipHead() {
	r.skipMetadata(r.bitmap(&metadataPlan().groups[0]), metaAnnotations+1)
}

// skipMetadata skips those of the first n metadata fields that are in set.
func (r *reader) skipMetadata(set uint64, n int) {
	for i := range n {
		switch {
		case set&(1<<i) == 0:
		case i < metaLabels:
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

// DecodeMetadata overwrites into with the metadata of o, whatever the type of o, and reads nothing
// else. As with Decode, the result shares no memory that can be changed. It is empty if the object
// has no ObjectMeta. The error is ErrCorrupt, or says that the metadata of unstructured content is
// not that of a Kubernetes object.
func (o Object) DecodeMetadata(into *metav1.ObjectMeta) error {
	*into = metav1.ObjectMeta{}
	var d decoder
	if !d.open(o) {
		return ErrCorrupt
	}
	if d.head.flags&flagMetadata == 0 {
		return nil
	}
	// The sizes that the encoder measured are for the whole object, so allocate as needed instead.
	if d.head.flags&flagContent != 0 {
		return d.contentMetadata(into)
	}
	d.structure(metadataPlan(), unsafe.Pointer(into))
	if d.bad {
		return ErrCorrupt
	}
	return nil
}

// contentMetadata reads the metadata of unstructured content.
func (d *decoder) contentMetadata(into *metav1.ObjectMeta) error {
	d.skipHead()
	if d.byte() != 2 || d.bad {
		if d.bad {
			return ErrCorrupt
		}
		return nil // no metadata
	}
	content := d.content()
	if d.bad {
		return ErrCorrupt
	}
	m, ok := content.(map[string]any)
	if !ok {
		return fmt.Errorf("flat: metadata is %T, not an object", content)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, into); err != nil {
		return fmt.Errorf("flat: metadata of unstructured content: %w", err)
	}
	return nil
}
