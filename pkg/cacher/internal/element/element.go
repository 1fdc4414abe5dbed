// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package element

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
)

// The fields by which the order of keys answers for an object.
const (
	NameField      = "metadata.name"
	NamespaceField = "metadata.namespace"
)

// Element is what the engine of a Cacher keeps of an object. It never changes.
type Element struct {
	kept   object.Object
	labels labels.Set // nil if the object is flat: they are read from it
	fields fieldValues
	bytes  int // of memory, with all that it refers to
}

// Bytes returns how much memory the element takes, with all that it refers to.
func (e *Element) Bytes() int { return e.bytes }

// Field returns the value of a selectable field, and whether the object has the field.
func (e *Element) Field(name string) (value string, ok bool) { return e.fields.lookup(name) }

// label returns a label.
func (e *Element) label(key string) (value string, ok bool) {
	if e.kept.IsFlat() {
		return e.kept.Label(key)
	}
	value, ok = e.labels[key]
	return value, ok
}

// labelView returns the labels as selectors read them.
func (e *Element) labelView() labels.Labels {
	if e.kept.IsFlat() {
		return e.kept.Labels()
	}
	return e.labels
}

// labelPrefix and fieldPrefix begin the names of indexes.
var (
	labelPrefix = postings.LabelName("")
	fieldPrefix = postings.Name("")
)

// Values passes to yield what the object has under the name of an index.
func (e *Element) Values(index string, yield func(string)) {
	if key, ok := strings.CutPrefix(index, labelPrefix); ok {
		if value, ok := e.label(key); ok {
			yield(value)
		}
		return
	}
	if value, ok := e.fields.lookup(strings.TrimPrefix(index, fieldPrefix)); ok {
		yield(value)
	}
}
