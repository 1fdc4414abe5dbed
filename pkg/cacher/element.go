// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/object"
)

// element is what the engine keeps of an object. It never changes.
type element struct {
	kept   object.Object
	labels labels.Set // nil if the object is flat: they are read from it
	fields fieldValues
	bytes  int // of memory, with all that it refers to
}

// elements makes elements of objects, and objects of elements.
type elements struct {
	form     *object.Form
	getAttrs storage.AttrFunc
}

// keep makes an element of obj, which must not be changed any more.
func (e *elements) keep(obj runtime.Object) (*element, error) {
	labelSet, fieldSet, err := e.getAttrs(obj)
	if err != nil {
		return nil, err
	}
	made := &element{kept: e.form.Keep(obj), fields: newFieldValues(fieldSet)}
	if made.kept.IsFlat() {
		// The values of fields are what is left of the decoded object.
		made.bytes = made.fields.textBytes()
	} else {
		made.labels = labelSet
	}
	made.bytes += made.kept.Bytes() + int(unsafe.Sizeof(*made)) + cap(made.fields.pairs)*int(unsafe.Sizeof(fieldValue{}))
	return made, nil
}

// object returns the object, which must not be changed: it may be the one that is kept.
func (e *elements) object(of *element) (runtime.Object, error) {
	obj, err := e.form.Materialize(of.kept)
	if err != nil {
		return nil, err
	}
	return obj.(runtime.Object), nil
}

// make makes the object of an element, unless that was done.
func (e *elements) make(of *element, made *runtime.Object) (err error) {
	if *made == nil {
		*made, err = e.object(of)
	}
	return err
}

// own returns a copy that is the caller's own.
func (e *elements) own(of *element) (runtime.Object, error) { return e.form.Copy(of.kept) }

// label returns a label.
func (e *element) label(key string) (value string, ok bool) {
	if e.kept.IsFlat() {
		return e.kept.Label(key)
	}
	value, ok = e.labels[key]
	return value, ok
}

// labelView returns the labels as selectors read them.
func (e *element) labelView() labels.Labels {
	if e.kept.IsFlat() {
		return e.kept.Labels()
	}
	return e.labels
}

// fieldValues are the selectable fields of an object as fields.Selector reads them. The
// objects of a resource have the same few fields, so that a map for each would take more
// memory than the values.
type fieldValues struct {
	pairs []fieldValue // in the order of their names
}

type fieldValue struct{ name, value string }

func newFieldValues(set fields.Set) fieldValues {
	v := fieldValues{pairs: make([]fieldValue, 0, len(set))}
	for name, value := range set {
		v.pairs = append(v.pairs, fieldValue{name, value})
	}
	slices.SortFunc(v.pairs, func(a, b fieldValue) int { return strings.Compare(a.name, b.name) })
	return v
}

// textBytes returns what the values take if nobody else has them.
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

func newElements(config Config) *elements {
	typ := reflect.TypeOf(config.NewFunc())
	return &elements{
		form:     object.NewForm(object.Options{Type: typ, Decoded: ptr.Deref(config.Decoded, true)}),
		getAttrs: config.GetAttrsFunc,
	}
}

// fill writes the object into a value of its struct type. One that is kept decoded shares
// what it refers to with the cache.
func (e *elements) fill(of *element, into reflect.Value) error {
	if of.kept.IsFlat() {
		return e.form.CopyInto(of.kept, into.Addr().Interface().(runtime.Object))
	}
	obj, err := e.form.Materialize(of.kept)
	if err != nil {
		return err
	}
	into.Set(reflect.ValueOf(obj).Elem())
	return nil
}

// values passes what an object has under the name of an index to yield.
func (e *elements) values(of *element, index string, yield func(string)) {
	if key, ok := strings.CutPrefix(index, labelPrefix); ok {
		if value, ok := of.label(key); ok {
			yield(value)
		}
		return
	}
	if value, ok := of.fields.lookup(strings.TrimPrefix(index, fieldPrefix)); ok {
		yield(value)
	}
}
