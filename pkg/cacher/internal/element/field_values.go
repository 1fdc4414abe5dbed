// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package element

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/tarn-dev/tarn/internal/object"
)

// fieldValues are the selectable fields of an object as fields.Selector reads them. The
// objects of a resource have the same few fields, so that a map for each object would take
// more memory than the values.
type fieldValues struct {
	pairs []fieldValue // in the order of their names
}

type fieldValue struct{ name, value string }

var _ fields.Fields = (*fieldValues)(nil)

func newFieldValues(set fields.Set) fieldValues {
	v := fieldValues{pairs: make([]fieldValue, 0, len(set))}
	for name, value := range set {
		v.pairs = append(v.pairs, fieldValue{name, value})
	}
	slices.SortFunc(v.pairs, func(a, b fieldValue) int { return strings.Compare(a.name, b.name) })
	return v
}

// textBytes returns what the values take if nothing else refers to them.
func (v *fieldValues) textBytes() (sum int) {
	for _, pair := range v.pairs {
		sum += object.Allocated(len(pair.value))
	}
	return sum
}

func (v *fieldValues) lookup(name string) (string, bool) {
	for i := range v.pairs { // they are a handful
		if v.pairs[i].name == name {
			return v.pairs[i].value, true
		}
	}
	return "", false
}

// Has implements fields.Fields.
func (v *fieldValues) Has(name string) bool { _, ok := v.lookup(name); return ok }

// Get implements fields.Fields.
func (v *fieldValues) Get(name string) string { value, _ := v.lookup(name); return value }
