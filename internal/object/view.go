// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// View makes the objects of a store in another Go type: those of a store of unstructured objects as
// the Go type of their kind, or as metadata. Unstructured objects have all that the server sent, so
// no view loses what another one shows. A view shows what the JSON decoder of clients makes of the object,
// see DecodeInto. It is safe for concurrent use.
type View struct {
	form *Form
	typ  reflect.Type // a pointer to a struct
}

var (
	typeUnstructured = reflect.TypeFor[*unstructured.Unstructured]()
	typeMetadata     = reflect.TypeFor[*metav1.PartialObjectMetadata]()
)

// As returns the view of the objects as t. It is nil if t is the type of the store itself. The error
// says that the store cannot show its objects as t.
func (f *Form) As(t reflect.Type) (*View, error) {
	switch {
	case t == f.typ:
		return nil, nil
	case f.typ != typeUnstructured:
		return nil, fmt.Errorf("objects that are kept as %s cannot be shown as %s", f.typ, t)
	}
	return &View{form: f, typ: t}, nil
}

// Of returns an object of the store as the view shows it: obj itself if the view is nil. Neither may be changed.
// The error says that the object does not fit the Go type.
func (v *View) Of(obj any) (any, error) {
	if v == nil || reflect.TypeOf(obj) == v.typ {
		return obj, nil
	}
	into, ok := reflect.New(v.typ.Elem()).Interface().(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no runtime.Object", v.typ)
	}
	if err := DecodeInto(obj, into); err != nil {
		return nil, err
	}
	return into, nil
}

// Materialize returns o as the view shows it; the result must not be changed.
func (v *View) Materialize(o Object) (any, error) {
	if v.typ == typeMetadata {
		m := &metav1.PartialObjectMetadata{}
		return m, v.form.MetadataInto(o, &m.ObjectMeta)
	}
	obj, err := v.form.Materialize(o)
	if err != nil {
		return nil, err
	}
	return v.Of(obj)
}

// Copy returns o as the view shows it; the result belongs to the caller.
func (v *View) Copy(o Object) (runtime.Object, error) {
	into := reflect.New(v.typ.Elem()).Interface().(runtime.Object)
	return into, v.CopyInto(o, into)
}

// CopyInto overwrites into, which has the type of the view or is a *metav1.PartialObjectMetadata,
// with a copy of o, which belongs to the caller.
func (v *View) CopyInto(o Object, into runtime.Object) error {
	if _, ok := into.(*metav1.PartialObjectMetadata); ok {
		return v.form.CopyInto(o, into)
	}
	if reflect.TypeOf(into) != v.typ {
		return typeError(v.typ, into)
	}
	obj, err := v.form.Materialize(o)
	if err != nil {
		return err
	}
	if reflect.TypeOf(obj) == v.typ { // a transform has made it so
		return copyDecoded(obj, into)
	}
	return DecodeInto(obj, into)
}

// Shared is Copy: nothing is kept in the type of a view, so reads cannot share it.
func (v *View) Shared(o Object) (any, error) { return v.Copy(o) }

// ShareInto is CopyInto.
func (v *View) ShareInto(o Object, into runtime.Object) error { return v.CopyInto(o, into) }

// DecodeInto overwrites into, of another Go type, with what the JSON decoder of clients makes of an unstructured
// object: its JSON is what an API server writes, with the keys in order, and numbers as Go writes them. The two
// share no memory. If the object does not fit, the error names it, and into is empty.
func DecodeInto(obj any, into runtime.Object) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		have, err := asObject(obj)
		if err != nil {
			return err
		}
		return typeError(reflect.TypeOf(have), into)
	}
	content := u.Object
	if _, ok := into.(*metav1.PartialObjectMetadata); ok { // the rest need not be encoded
		content = map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": content["metadata"]}
	}
	reflect.ValueOf(into).Elem().SetZero()
	encoded, err := json.Marshal(content)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(encoded, into)
	}
	if err != nil {
		reflect.ValueOf(into).Elem().SetZero()
		return fmt.Errorf("%s %s/%s does not fit %T: %w", u.GetKind(), u.GetNamespace(), u.GetName(), into, err)
	}
	return nil
}
