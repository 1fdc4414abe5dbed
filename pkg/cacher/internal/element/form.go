// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package element

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/internal/object"
)

// Form makes elements of objects, and objects of elements. It is safe for concurrent use.
type Form struct {
	objects    *object.Form
	attributes storage.AttrFunc
}

// NewForm returns the form for objects of a Go type, which is a pointer to a struct. It keeps
// them flat unless decoded is set. attributes returns the labels and selectable fields of an
// object.
func NewForm(typ reflect.Type, decoded bool, attributes storage.AttrFunc) *Form {
	return &Form{
		objects:    object.NewForm(object.Options{Type: typ, Decoded: decoded}),
		attributes: attributes,
	}
}

// Keep makes an element of obj, which must not be changed any more. The error is that of the
// function for attributes.
func (f *Form) Keep(obj runtime.Object) (*Element, error) {
	labelSet, fieldSet, err := f.attributes(obj)
	if err != nil {
		return nil, err
	}
	return newElement(f.objects.Keep(obj), labelSet, newFieldValues(fieldSet)), nil
}

func newElement(kept object.Object, labelSet labels.Set, values fieldValues) *Element {
	made := &Element{kept: kept, fields: values}
	if kept.IsFlat() {
		// The values of fields are what is left of the decoded object.
		made.bytes = values.textBytes()
	} else {
		made.labels = labelSet
	}
	made.bytes += kept.Bytes() + int(unsafe.Sizeof(*made)) + cap(values.pairs)*int(unsafe.Sizeof(fieldValue{}))
	return made
}

// Stale reports that most of what flat elements have in common serves elements that are gone,
// so that Renew pays. live is how many elements are kept.
func (f *Form) Stale(live int) bool { return f.objects.Stale(live) }

// Renew begins anew with what flat elements have in common, and returns a function that moves an
// element there. Elements that are not moved stay readable, and hold the old. Renew must not be
// called by two goroutines at once.
func (f *Form) Renew() (move func(*Element) *Element) {
	moveObject := f.objects.Renew()
	return func(e *Element) *Element { return newElement(moveObject(e.kept), e.labels, e.fields) }
}

// Object returns the object of an element. It must not be changed: it may be the kept object
// itself.
func (f *Form) Object(of *Element) (runtime.Object, error) {
	obj, err := f.objects.Materialize(of.kept)
	if err != nil {
		return nil, err
	}
	return obj.(runtime.Object), nil
}

// Once sets made to the object of an element, unless it is set already.
func (f *Form) Once(of *Element, made *runtime.Object) (err error) {
	if *made == nil {
		*made, err = f.Object(of)
	}
	return err
}

// Copy returns a copy of the object, which is the caller's own.
func (f *Form) Copy(of *Element) (runtime.Object, error) { return f.objects.Copy(of.kept) }

// Fill writes the object into a value of its struct type. An object that is kept decoded
// shares what it refers to with the cache.
func (f *Form) Fill(of *Element, into reflect.Value) error {
	if of.kept.IsFlat() {
		return f.objects.CopyInto(of.kept, into.Addr().Interface().(runtime.Object))
	}
	obj, err := f.objects.Materialize(of.kept)
	if err != nil {
		return err
	}
	into.Set(reflect.ValueOf(obj).Elem())
	return nil
}
