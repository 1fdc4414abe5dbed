// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/flat"
)

// Options configure a [Form].
type Options struct {
	// Type is the Go type of the objects: a pointer to a struct that is a
	// runtime.Object.
	Type reflect.Type
	// Decoded keeps them decoded even if they could be flat.
	Decoded bool
	// Verify compares each flat object with its source, and panics if they differ:
	// for tests. See also VerifyAll.
	Verify bool
}

// verifyAll is set by VerifyAll.
var verifyAll atomic.Bool

// VerifyAll has every [Form] that is made from now on verify its objects, as with
// Options.Verify: for test environments, which serve caches that they do not make.
func VerifyAll() { verifyAll.Store(true) }

// Form keeps the objects of one store, and gives them back. It is safe for
// concurrent use, except as said at Declare.
type Form struct {
	typ    reflect.Type
	codec  *flat.Codec // nil if the objects are kept decoded
	reason error       // why a type that could have been flat is not
	verify bool
	dict   atomic.Pointer[flat.Dictionary]
	fields atomic.Pointer[[]declared] // in the order in which they were declared
	shared shared
}

// NewForm returns the form for one store.
func NewForm(o Options) *Form {
	f := &Form{typ: o.Type, verify: o.Verify || verifyAll.Load()}
	f.fields.Store(&[]declared{})
	if o.Decoded {
		return f
	}
	if f.codec, f.reason = codecFor(o.Type); f.reason == nil {
		f.begin(flat.NewDictionary(flat.Limits{}))
	}
	return f
}

// Reason returns why the objects of the store are decoded although they were to be
// flat; nil if they are flat, or were not to be.
func (f *Form) Reason() error { return f.reason }

// Keep returns what is kept of obj, which must not be changed any more. Whatever its type, the
// metadata of what is kept are those that meta.Accessor finds.
func (f *Form) Keep(obj any) Object {
	kept := f.tell(Object{}, obj)
	if f.codec == nil || reflect.TypeOf(obj) != f.typ || !f.metadataAgree(obj) {
		kept.decoded = obj
		return kept
	}
	encoded, err := f.codec.Encode(obj, f.dict.Load())
	if err != nil { // this one holds what cannot be kept without loss
		kept.decoded = obj
		return kept
	}
	f.check(obj, encoded)
	kept.flat = encoded
	return kept
}

// check panics if obj is not what encoded holds, if that is to be looked at.
func (f *Form) check(obj any, encoded flat.Object) {
	if !f.verify {
		return
	}
	if err := f.codec.Verify(obj, encoded); err != nil {
		panic(fmt.Sprintf("%s is not kept without loss: %v", f.typ, err))
	}
}

// CopyInto overwrites into with a copy that is the caller's own. Of an object of
// another type, a *metav1.PartialObjectMetadata gets the metadata, without its kind.
func (f *Form) CopyInto(o Object, into runtime.Object) error {
	if m, ok := into.(*metav1.PartialObjectMetadata); ok && !f.holds(o, into) {
		m.TypeMeta = metav1.TypeMeta{}
		return f.MetadataInto(o, &m.ObjectMeta)
	}
	if !o.IsFlat() {
		return copyDecoded(o.decoded, into)
	}
	if have := f.typ; have != reflect.TypeOf(into) {
		return typeError(have, into)
	}
	return f.decode(o, into)
}

// decode makes an object of a flat one.
func (f *Form) decode(o Object, into any) error {
	if err := f.codec.Decode(o.flat, into); err != nil {
		return err
	}
	ownNames(f.metadata(into))
	return nil
}

// holds reports whether o is of the type of like.
func (f *Form) holds(o Object, like any) bool {
	if o.IsFlat() {
		return f.typ == reflect.TypeOf(like)
	}
	return reflect.TypeOf(o.decoded) == reflect.TypeOf(like)
}

// ShareInto overwrites into with what Shared returns; what it refers to must not be
// changed. Metadata alone are copied.
func (f *Form) ShareInto(o Object, into runtime.Object) error {
	if _, ok := into.(*metav1.PartialObjectMetadata); ok && !f.holds(o, into) {
		return f.CopyInto(o, into)
	}
	kept, err := f.Shared(o)
	if err != nil {
		return err
	}
	if reflect.TypeOf(kept) != reflect.TypeOf(into) {
		shared, err := asObject(kept)
		if err != nil {
			return err
		}
		return typeError(reflect.TypeOf(shared), into)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(kept).Elem())
	return nil
}

// Shared returns the object that reads without a copy share: a decoded object itself; of
// a flat one, what was made by the first of such reads that follow one another closely,
// unless it is large or of an old dictionary.
func (f *Form) Shared(o Object) (any, error) {
	if !o.IsFlat() {
		return o.decoded, nil
	}
	if made, ok := f.shared.find(o.flat); ok {
		return made, nil
	}
	made, err := f.Materialize(o)
	if err != nil {
		return nil, err
	}
	return f.shared.keep(o.flat, made), nil
}

// Materialize returns an object of which nothing else is made: for a decoded one
// that is the object itself, which must not be changed.
func (f *Form) Materialize(o Object) (any, error) {
	if !o.IsFlat() {
		return o.decoded, nil
	}
	made := reflect.New(f.typ.Elem()).Interface()
	return made, f.decode(o, made)
}

// MaterializeReusing is Materialize beside another object, and like is that one
// materialized, or what it was kept of: if both are flat, what is made refers to memory
// of like wherever the two are the same. Neither may be changed then.
func (f *Form) MaterializeReusing(o, other Object, like any) (any, error) {
	if !o.IsFlat() || !other.IsFlat() || reflect.TypeOf(like) != f.typ {
		return f.Materialize(o)
	}
	made := reflect.New(f.typ.Elem()).Interface()
	if err := f.codec.DecodeReusing(o.flat, made, other.flat, like); err != nil {
		return nil, err
	}
	f.check(made, o.flat)
	shareNames(f.metadata(made), f.metadata(like))
	return made, nil
}

// Copy returns a copy that is the caller's own.
func (f *Form) Copy(o Object) (runtime.Object, error) {
	made, err := f.Materialize(o)
	if err != nil {
		return nil, err
	}
	obj, err := asObject(made)
	if err != nil || o.IsFlat() {
		return obj, err
	}
	return obj.DeepCopyObject(), nil
}

// MetadataInto overwrites into with a copy of the object's metadata, which is the
// caller's own.
func (f *Form) MetadataInto(o Object, into *metav1.ObjectMeta) error {
	if o.IsFlat() {
		if err := o.flat.DecodeMetadata(into); err != nil {
			return err
		}
		ownNames(into)
		return nil
	}
	m, err := meta.Accessor(o.decoded)
	if err != nil {
		return err
	}
	meta.AsPartialObjectMetadata(m).ObjectMeta.DeepCopyInto(into)
	return nil
}

// Stale reports that most of the dictionary serves objects that are gone, so that
// Renew pays. Live is how many objects the store has.
func (f *Form) Stale(live int) bool {
	dict := f.dict.Load()
	return dict != nil && dict.Stale(live)
}

// Renew begins a new dictionary, and returns a function that moves an object to it.
// Objects that are not moved stay readable. It must not run while another Renew
// does. A form that keeps objects decoded has nothing to move.
func (f *Form) Renew() func(Object) Object {
	if worn := f.dict.Load(); worn != nil {
		f.begin(worn.Successor())
	}
	return f.move
}

// begin makes dict the dictionary of what is kept from now on.
func (f *Form) begin(dict *flat.Dictionary) {
	f.dict.Store(dict)
	f.shared.begin(dict)
}

// move moves an object to the newest dictionary.
func (f *Form) move(o Object) Object {
	dict := f.dict.Load()
	if !o.IsFlat() || o.flat.Dictionary() == dict {
		return o
	}
	if moved, err := f.codec.Reencode(o.flat, dict); err == nil {
		o.flat = moved
	}
	return o
}

// Refresh returns o as Keep would keep it now: with the values of all declared fields,
// and moved to the newest dictionary. An object that is in the old one would keep all
// of that from being collected.
func (f *Form) Refresh(o Object) Object { return f.move(f.Retell(o)) }

func copyDecoded(obj any, into runtime.Object) error {
	source, err := asObject(obj)
	if err != nil {
		return err
	}
	if reflect.TypeOf(obj) != reflect.TypeOf(into) {
		return typeError(reflect.TypeOf(obj), into)
	}
	CopierFor(reflect.TypeOf(obj)).CopyInto(source, reflect.ValueOf(into))
	return nil
}

// asObject refuses what a transform may have put in the place of an object.
func asObject(obj any) (runtime.Object, error) {
	if o, ok := obj.(runtime.Object); ok {
		return o, nil
	}
	return nil, fmt.Errorf("the cache holds a %T, which is no runtime.Object; check the transform of this kind", obj)
}

// typeError has the words of controller-runtime's cache.
func typeError(have reflect.Type, into any) error {
	return fmt.Errorf("cache had type %s, but %T was asked for", have, into)
}

// declared is a field by whose values objects are to be found.
type declared struct {
	name    string
	extract func(client.Object) []string
}
