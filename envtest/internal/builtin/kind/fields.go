// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// FieldSet says which field selectors a kind knows. The zero value knows metadata.name and metadata.namespace.
type FieldSet struct {
	// values adds the selectable fields of obj to set.
	values func(obj runtime.Object, set fields.Set)
	// Known are the labels that are accepted besides the metadata ones.
	Known []string
	// Convert checks one requirement of a request and translates its label to the one in values.
	Convert runtime.FieldLabelConversionFunc
}

// Selectable returns the FieldSet for the labels that values sets, named in known besides the metadata ones.
func Selectable[T runtime.Object](values func(obj T, set fields.Set), known ...string) FieldSet {
	return FieldSet{
		values:  func(obj runtime.Object, set fields.Set) { values(MustBe[T](obj), set) },
		Known:   known,
		Convert: accept(slices.Concat(known, []string{"metadata.name", "metadata.namespace"})...),
	}
}

// accept returns a conversion that lets the named labels through and refuses all others.
func accept(known ...string) runtime.FieldLabelConversionFunc {
	set := make(map[string]bool, len(known))
	for _, label := range known {
		set[label] = true
	}
	return func(label, value string) (string, string, error) {
		if !set[label] {
			return "", "", fmt.Errorf("field label not supported: %s", label)
		}
		return label, value, nil
	}
}

// Attributes returns the labels and selectable fields of an object of this kind, for selectors. It is called for each
// object that a list or a watch with a selector looks at.
func (k *Kind) Attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	set := fields.Set{"metadata.name": m.GetName()}
	if !k.Cluster {
		set["metadata.namespace"] = m.GetNamespace()
	}
	if k.Fields.values != nil {
		k.Fields.values(obj, set)
	}
	return m.GetLabels(), set, nil
}

var _ storage.AttrFunc = (*Kind)(nil).Attributes
